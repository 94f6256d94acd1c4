package session

import "sync"

// fifo is a queue that grows with its use.
type fifo[T any] struct {
	ring []T
	head int
	n    int
}

func (f *fifo[T]) init(size int) { f.ring = make([]T, size) }

func (f *fifo[T]) len() int { return f.n }

// at is entry i, counted from the oldest.
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

// chunk is memory for data that no Read waits for.
type chunk struct{ buf []byte }

// chunkSize is the size of the chunks that are kept for use, in bytes.
const chunkSize = DefaultBufferSize

var chunks = sync.Pool{New: func() any { return &chunk{make([]byte, chunkSize)} }}

// newChunk gives a chunk for n bytes.
func newChunk(n int) *chunk {
	if n > chunkSize {
		return &chunk{make([]byte, n)}
	}
	return chunks.Get().(*chunk)
}

// fill copies p into the chunk.
func (c *chunk) fill(p []byte) []byte { return c.buf[:copy(c.buf, p)] }

// drop gives the chunk back; nil is none.
func (c *chunk) drop() {
	if c != nil && len(c.buf) == chunkSize {
		chunks.Put(c)
	}
}
