package stream

import "testing"

// TestChunksFitTheirSize makes chunks of all sizes: each chunk has enough room, and is
// pooled only with chunks of its size.
func TestChunksFitTheirSize(t *testing.T) {
	for n, size := range map[int]int{
		1: smallChunk, smallChunk: smallChunk, smallChunk + 1: largeChunk, largeChunk: largeChunk,
		largeChunk + 1: largeChunk + 1,
	} {
		c := newChunk(n)
		if len(c.buf) != size {
			t.Errorf("a chunk for %d bytes has %d", n, len(c.buf))
		}
		if got := c.fill(make([]byte, n)); len(got) != n {
			t.Errorf("%d of %d bytes fit", len(got), n)
		}
		c.drop()
	}
	(*chunk)(nil).drop()
}
