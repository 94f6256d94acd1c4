// Package smbbuf is the buffer pool of SMB messages, for client and server.
package smbbuf

import (
	"sync"

	"lwio/internal/account"
)

// sizes are the size classes of buffers, in bytes: payloads of powers of two, each with room for
// headers, so that a buffer has at most about twice the requested length. The class of 1 MiB +
// 64 KiB is the longest message of a server with the default transfer size.
var sizes = [...]int{
	1 << 10, 2 << 10, 4<<10 + 512, 8<<10 + 512, 16<<10 + 512, 32<<10 + 1<<10, 64<<10 + 2<<10, 128<<10 + 2<<10,
	256<<10 + 4<<10, 512<<10 + 8<<10, 1<<20 + 8<<10, 1<<20 + 64<<10, 2<<20 + 64<<10, 4<<20 + 64<<10, 8<<20 + 128<<10,
}

// Pool is a buffer pool. The zero value is ready. It is safe for concurrent use.
type Pool struct {
	pools [len(sizes)]sync.Pool
}

// Buffer is the memory of one message. It has one owner at a time, which calls Free. The
// garbage collector frees a buffer whose owner does not.
type Buffer struct {
	// B is the message.
	B []byte
	// Charge is the charge of the memory to a peer. Free returns it.
	Charge account.Charge

	pool  *sync.Pool
	class int // the capacity of the buffers of pool
}

// class returns the index of the size class of n bytes; len(sizes) above the largest.
func class(n int) int {
	i := 0
	for i < len(sizes) && n > sizes[i] {
		i++
	}
	return i
}

// Size returns the memory of a buffer of length n, in bytes.
func Size(n int) int {
	if i := class(n); i < len(sizes) {
		return sizes[i]
	}
	return n
}

// Get returns a buffer with B of length n and unspecified content.
func (p *Pool) Get(n int) *Buffer {
	i := class(n)
	if i == len(sizes) {
		return &Buffer{B: make([]byte, n)}
	}
	if buf, ok := p.pools[i].Get().(*Buffer); ok {
		buf.B = buf.B[:n]
		return buf
	}
	return &Buffer{B: make([]byte, n, sizes[i]), pool: &p.pools[i], class: sizes[i]}
}

// Free returns the buffer to its pool, and its charge; nil is allowed. The pool does not take a
// buffer whose B has grown out of its class.
func (b *Buffer) Free() {
	if b == nil {
		return
	}
	charge := b.Charge
	b.Charge = account.Charge{}
	if b.pool != nil && cap(b.B) == b.class {
		b.pool.Put(b)
	}
	charge.Return()
}
