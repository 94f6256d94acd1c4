package smbclient

import "sync"

// bufferSizes are the size classes of buffers, in bytes: small messages, the payload of one
// credit, and one or several MiB of payload, each with room for headers.
var bufferSizes = [...]int{1 << 10, 8 << 10, 68 << 10, 1<<20 + 4<<10, maxIO + 4<<10}

// buffer is the memory of one message. It has one owner at a time, which returns it by put;
// one that is never returned is left to the garbage collector.
type buffer struct {
	b     []byte
	class int // index in bufferSizes, or negative
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
		return &buffer{b: make([]byte, n, size), class: i}
	}
	return &buffer{b: make([]byte, n), class: -1}
}

// put takes a buffer back. One that has grown out of its class is left to the garbage
// collector; nil is allowed.
func (p *buffers) put(b *buffer) {
	if b != nil && b.class >= 0 && cap(b.b) == bufferSizes[b.class] {
		p.pools[b.class].Put(b)
	}
}
