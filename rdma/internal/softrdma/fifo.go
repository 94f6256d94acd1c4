package softrdma

// firstSlots is how many slots a queue of requests begins with.
const firstSlots = 8

// FIFO is a queue of slots that are made when first needed, several at a time so that they
// lie side by side, and used again. An
// element has a number, counted from the first ever; those from Head to Tail are
// in the queue. To take the first one out, add one to Head. The zero value works.
type FIFO[T any] struct {
	Head, Tail uint64

	slots []*T // a power of two
}

// Len is the number of elements.
func (f *FIFO[T]) Len() int { return int(f.Tail - f.Head) }

// At is element i.
func (f *FIFO[T]) At(i uint64) *T { return f.slots[i&uint64(len(f.slots)-1)] }

// Push adds an element, whose slot may have the content of an earlier one.
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
