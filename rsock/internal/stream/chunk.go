package stream

import "sync"

// chunk is memory for data that no Read waits for.
type chunk struct{ buf []byte }

// The sizes of pooled chunks, in bytes. The larger size fits the payload of a control
// message of the default size.
const (
	smallChunk = 4 << 10
	largeChunk = DefaultBufferSize
)

var (
	smallChunks = sync.Pool{New: func() any { return &chunk{make([]byte, smallChunk)} }}
	largeChunks = sync.Pool{New: func() any { return &chunk{make([]byte, largeChunk)} }}
)

// newChunk returns a chunk for n bytes.
func newChunk(n int) *chunk {
	switch {
	case n <= smallChunk:
		return smallChunks.Get().(*chunk)
	case n <= largeChunk:
		return largeChunks.Get().(*chunk)
	}
	return &chunk{make([]byte, n)}
}

// fill copies p into the chunk.
func (c *chunk) fill(p []byte) []byte { return c.buf[:copy(c.buf, p)] }

// drop returns the chunk to its pool. The chunk may be nil.
func (c *chunk) drop() {
	if c == nil {
		return
	}
	switch len(c.buf) {
	case smallChunk:
		smallChunks.Put(c)
	case largeChunk:
		largeChunks.Put(c)
	}
}
