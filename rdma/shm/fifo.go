//go:build linux

package shm

// firstSlots is how many slots a queue of requests begins with.
const firstSlots = 8

// fifo is a queue of slots that are made when first needed and used again. An
// element has a number, counted from the first ever; those from head to tail are
// in the queue.
type fifo[T any] struct {
	slots      []*T // a power of two
	head, tail uint64
}

// len is the number of elements.
func (f *fifo[T]) len() int { return int(f.tail - f.head) }

// at is element i.
func (f *fifo[T]) at(i uint64) *T { return f.slots[i&uint64(len(f.slots)-1)] }

// push adds an element, whose slot may have the content of an earlier one.
func (f *fifo[T]) push() *T {
	if f.len() == len(f.slots) {
		f.grow()
	}
	i := f.tail & uint64(len(f.slots)-1)
	if f.slots[i] == nil {
		f.slots[i] = new(T)
	}
	f.tail++
	return f.slots[i]
}

func (f *fifo[T]) grow() {
	slots := make([]*T, max(2*len(f.slots), firstSlots))
	for i := f.head; i != f.tail; i++ {
		slots[i&uint64(len(slots)-1)] = f.at(i)
	}
	f.slots = slots
}
