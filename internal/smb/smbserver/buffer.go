package smbserver

import "sync"

// headroom precedes every answer: the length word of the transport.
//
// Source: [MS-SMB2 2.1]
const headroom = 4

// bufferSizes are the classes in which buffers are kept: small messages, one
// credit's worth, and one or several MiB of payload with room for headers.
var bufferSizes = [...]int{1 << 10, 16 << 10, 72 << 10, 1<<20 + 8<<10, 8<<20 + 128<<10}

// buffer is memory for one message, in or out. It has one owner at a time, who
// calls free when done.
type buffer struct {
	b     []byte
	pool  *sync.Pool
	class int // the capacity that belongs into pool

	budget  *budget // that claimed bytes are a part of, for a user
	user    string
	claimed int
}

// buffers recycles the memory of messages. It is safe for concurrent use.
type buffers struct {
	pools [len(bufferSizes)]sync.Pool
}

// get returns a buffer with b of length n and unspecified content.
func (p *buffers) get(n int) *buffer {
	for i, size := range bufferSizes {
		if n > size {
			continue
		}
		if buf, ok := p.pools[i].Get().(*buffer); ok {
			buf.b = buf.b[:n]
			return buf
		}
		return &buffer{b: make([]byte, n, size), pool: &p.pools[i], class: size}
	}
	return &buffer{b: make([]byte, n)}
}

// free gives the buffer back. A buffer that has grown out of its class is
// dropped.
func (b *buffer) free() {
	if b == nil {
		return
	}
	claimed := b.claimed
	b.claimed = 0
	if claimed > 0 {
		defer b.budget.give(b.user, claimed)
	}
	if b.pool != nil && cap(b.b) == b.class {
		b.pool.Put(b)
	}
}

// claim says that n bytes of a user's budget go back with the buffer.
func (b *buffer) claim(from *budget, user string, n int) { b.budget, b.user, b.claimed = from, user, n }
