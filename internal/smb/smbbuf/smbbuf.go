// Package smbbuf is the buffer pool of SMB messages, for client and server.
package smbbuf

import "sync"

// sizes are the size classes of buffers, in bytes: small messages, 4 KiB and 8 KiB of
// payload, the payload of one credit, and one or several MiB of payload, each with room for
// headers.
var sizes = [...]int{1 << 10, 8 << 10, 16 << 10, 72 << 10, 1<<20 + 8<<10, 8<<20 + 128<<10}

// Pool is a buffer pool. The zero value is ready. It is safe for concurrent use.
type Pool struct {
	pools [len(sizes)]sync.Pool
}

// Buffer is the memory of one message. It has one owner at a time, which calls Free. The
// garbage collector frees a buffer whose owner does not.
type Buffer struct {
	// B is the message.
	B []byte

	pool  *sync.Pool
	class int // the capacity of the buffers of pool

	quota   Quota // has charged bytes for user
	user    string
	charged int
}

// Quota bounds the memory of users.
type Quota interface {
	// Give returns n bytes of a user.
	Give(user string, n int)
}

// Get returns a buffer with B of length n and unspecified content.
func (p *Pool) Get(n int) *Buffer {
	for i, size := range sizes {
		if n > size {
			continue
		}
		if buf, ok := p.pools[i].Get().(*Buffer); ok {
			buf.B = buf.B[:n]
			return buf
		}
		return &Buffer{B: make([]byte, n, size), pool: &p.pools[i], class: size}
	}
	return &Buffer{B: make([]byte, n)}
}

// Free returns the buffer to its pool and its bytes to the quota; nil is allowed. The pool
// does not take a buffer whose B has grown out of its class.
func (b *Buffer) Free() {
	if b == nil {
		return
	}
	charged := b.charged
	b.charged = 0
	if charged > 0 {
		defer b.quota.Give(b.user, charged)
	}
	if b.pool != nil && cap(b.B) == b.class {
		b.pool.Put(b)
	}
}

// Charge makes Free return n bytes of a user to a quota.
func (b *Buffer) Charge(to Quota, user string, n int) { b.quota, b.user, b.charged = to, user, n }
