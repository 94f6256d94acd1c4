package smbclient

import "sync"

// bufferSizes are the classes in which buffers are kept: small messages, one
// credit's worth of payload, and one or several MiB, each with room for headers.
var bufferSizes = [...]int{1 << 10, 8 << 10, 68 << 10, 1<<20 + 4<<10, maxIO + 4<<10}

// buffer is memory for one message. It has one owner at a time, who calls free
// when done; what is never freed is left to the garbage collector.
type buffer struct {
	b     []byte
	class int // index in bufferSizes, or negative
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
		return &buffer{b: make([]byte, n, size), class: i}
	}
	return &buffer{b: make([]byte, n), class: -1}
}

// put takes a buffer back. One that has grown out of its class is dropped.
func (p *buffers) put(b *buffer) {
	if b != nil && b.class >= 0 && cap(b.b) == bufferSizes[b.class] {
		p.pools[b.class].Put(b)
	}
}
