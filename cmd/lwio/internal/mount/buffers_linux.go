package mount

import (
	"context"
	"slices"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"lwio"
)

// Sizes and numbers of the buffers of a mount, for small and for large requests.
const (
	smallSize, smallCount = 16 << 10, 128
	largeSize, largeCount = maxRequest, 16
)

// buffers are registered memory for the data of requests: the server moves data to and from it, and the kernel reads and
// writes it. It is allocated when it is needed, and up to a bound. Safe for concurrent use.
type buffers struct {
	c            *lwio.Client
	small, large pool
}

func newBuffers(c *lwio.Client) *buffers {
	return &buffers{c: c, small: pool{size: smallSize, most: smallCount}, large: pool{size: largeSize, most: largeCount}}
}

// of returns the pool for n bytes.
func (b *buffers) of(n int) *pool {
	if n <= smallSize {
		return &b.small
	}
	return &b.large
}

// take returns a buffer of n bytes or more, or nil if all are in use.
func (b *buffers) take(ctx context.Context, n int) *lwio.Buffer { return b.of(n).take(ctx, b.c) }

// give takes a buffer back. A buffer that the server may still use, after a failed request, is taken again later.
func (b *buffers) give(buf *lwio.Buffer) { b.of(len(buf.Bytes())).give(buf) }

// close frees the buffers. None is in use.
func (b *buffers) close() {
	b.small.close()
	b.large.close()
}

// pool is the buffers of one size.
type pool struct {
	size, most int

	mu   sync.Mutex
	made int // all there are
	free []*lwio.Buffer
	busy []*lwio.Buffer // not in use here, but perhaps at the server
}

func (p *pool) take(ctx context.Context, c *lwio.Client) *lwio.Buffer {
	p.mu.Lock()
	p.busy = slices.DeleteFunc(p.busy, func(buf *lwio.Buffer) bool {
		if buf.Busy() {
			return false
		}
		p.free = append(p.free, buf)
		return true
	})
	if n := len(p.free); n > 0 {
		buf := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return buf
	}
	if p.made == p.most {
		p.mu.Unlock()
		return nil
	}
	p.made++
	p.mu.Unlock()
	buf, err := c.Alloc(ctx, p.size)
	if err != nil {
		p.mu.Lock()
		p.made--
		p.mu.Unlock()
		return nil
	}
	return buf
}

func (p *pool) give(buf *lwio.Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if buf.Busy() {
		p.busy = append(p.busy, buf)
		return
	}
	p.free = append(p.free, buf)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, buf := range append(p.free, p.busy...) {
		buf.Close()
	}
	p.made, p.free, p.busy = 0, nil, nil
}

// readResult is the result of a read in a buffer, which belongs to it until Done.
type readResult struct {
	from *buffers
	buf  *lwio.Buffer
	n    int
}

// Bytes returns the data.
func (r *readResult) Bytes([]byte) ([]byte, fuse.Status) { return r.buf.Bytes()[:r.n], fuse.OK }

// Slices returns the data. A result with this method keeps its buffer until the kernel has the data; with Bytes alone it
// would lose the buffer before.
func (r *readResult) Slices() ([][]byte, fuse.Status) {
	return [][]byte{r.buf.Bytes()[:r.n]}, fuse.OK
}

// Size returns the number of bytes.
func (r *readResult) Size() int { return r.n }

// Done gives the buffer back.
func (r *readResult) Done() { r.from.give(r.buf) }
