package softrdma

// firstSlots is the number of slots that a queue of requests begins with.
const firstSlots = 8

// FIFO is a queue of reusable slots. Slots are allocated on first use, several at a time
// so that they are adjacent. Elements are numbered from the first ever. The queue holds
// the elements [Head, Tail). To remove the first element, add one to Head. The zero value
// is an empty queue.
type FIFO[T any] struct {
	Head, Tail uint64

	slots []*T // their number is a power of two
}

// Len returns the number of elements.
func (f *FIFO[T]) Len() int { return int(f.Tail - f.Head) }

// At returns element i.
func (f *FIFO[T]) At(i uint64) *T { return f.slots[i&uint64(len(f.slots)-1)] }

// Push adds an element and returns its slot, which may have the content of an earlier
// element.
func (f *FIFO[T]) Push() *T {
	if f.Len() == len(f.slots) {
		f.grow()
	}
	f.Tail++
	return f.At(f.Tail - 1)
}

func (f *FIFO[T]) grow() {
	slots := make([]*T, max(2*len(f.slots), firstSlots))
	for i := f.Head; i != f.Tail; i++ {
		slots[i&uint64(len(slots)-1)] = f.At(i)
	}
	more := make([]T, len(slots)-len(f.slots))
	for i := f.Tail; i != f.Head+uint64(len(slots)); i++ {
		slots[i&uint64(len(slots)-1)] = &more[i-f.Tail]
	}
	f.slots = slots
}
