package stream

// fifo is a queue that grows with its use.
type fifo[T any] struct {
	ring []T
	head int
	n    int
}

func (f *fifo[T]) init(size int) { f.ring = make([]T, size) }

func (f *fifo[T]) len() int { return f.n }

// at returns entry i, counted from the oldest.
func (f *fifo[T]) at(i int) *T { return &f.ring[(f.head+i)%len(f.ring)] }

func (f *fifo[T]) push(v T) {
	if f.n == len(f.ring) {
		ring := make([]T, max(2*f.n, 4))
		for i := range f.n {
			ring[i] = *f.at(i)
		}
		f.ring, f.head = ring, 0
	}
	f.n++
	*f.at(f.n - 1) = v
}

// pop drops the oldest entry.
func (f *fifo[T]) pop() {
	var none T
	*f.at(0) = none
	f.head = (f.head + 1) % len(f.ring)
	f.n--
}
