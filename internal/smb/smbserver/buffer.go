package smbserver

import "sync"

// headroom is the length of the transport's header before every message, in bytes.
//
// Source: [MS-SMB2 2.1]
const headroom = 4

// bufferSizes are the size classes of buffers, in bytes: small messages, the payload of one
// credit, and one or several MiB of payload with room for headers.
var bufferSizes = [...]int{1 << 10, 16 << 10, 72 << 10, 1<<20 + 8<<10, 8<<20 + 128<<10}

// buffer is the memory of one message, in or out. It has one owner at a time, which calls
// free.
type buffer struct {
	b     []byte
	pool  *sync.Pool
	class int // the capacity of the buffers of pool

	quota   *memoryQuota // has charged bytes for user
	user    string
	charged int
}

// buffers is a buffer pool for messages. It is safe for concurrent use.
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

// free returns the buffer to its pool and its bytes to the quota. A buffer that has grown
// out of its class is left to the garbage collector.
func (b *buffer) free() {
	if b == nil {
		return
	}
	charged := b.charged
	b.charged = 0
	if charged > 0 {
		defer b.quota.give(b.user, charged)
	}
	if b.pool != nil && cap(b.b) == b.class {
		b.pool.Put(b)
	}
}

// charge makes free return n bytes of a user to the quota they were taken from.
func (b *buffer) charge(from *memoryQuota, user string, n int) {
	b.quota, b.user, b.charged = from, user, n
}
