package smbserver

import "sync"

// credits is the window of message ids of a connection: the ids that the client may use,
// and the ids that it has used. It is safe for concurrent use.
//
// The client holds the ids [low, high) that are not marked. A request takes as many ids as
// its charge; its response grants new ids at high. An id that the client skips keeps low in
// place. The window never spans more than max ids, so it stops growing until the client
// uses that id.
//
// Source: [MS-SMB2 3.3.1.1], [MS-SMB2 3.3.5.2.3]
type credits struct {
	max uint64

	mu        sync.Mutex
	low, high uint64
	used      []uint64 // bitmap, by id modulo max
	pending   uint64   // ids taken by requests without a response
}

// newCredits returns the window of a new connection: id 0 alone. limit is rounded up to a
// multiple of 64.
func newCredits(limit int) *credits {
	words := (limit + 63) / 64
	return &credits{max: uint64(words) * 64, high: 1, used: make([]uint64, words)}
}

// bit returns the word and the mask of an id in the bitmap.
func (c *credits) bit(id uint64) (word *uint64, mask uint64) {
	at := id % c.max
	return &c.used[at/64], 1 << (at % 64)
}

// take uses the ids of one request. It reports false, and changes nothing, if the client
// may not use one of the ids. The caller then cuts the connection.
func (c *credits) take(id uint64, charge uint16) bool {
	n := max(uint64(charge), 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if id < c.low || id >= c.high || n > c.high-id {
		return false
	}
	for i := id; i < id+n; i++ {
		if w, m := c.bit(i); *w&m != 0 {
			return false
		}
	}
	for i := id; i < id+n; i++ {
		w, m := c.bit(i)
		*w |= m
	}
	for c.low < c.high {
		w, m := c.bit(c.low)
		if *w&m == 0 {
			break
		}
		*w &^= m
		c.low++
	}
	c.pending += n
	return true
}

// grant returns the number of new ids for the response to a request that cost charge and
// asked for wanted. A client always keeps at least one id.
//
// Source: [MS-SMB2 3.3.1.2]
func (c *credits) grant(charge, wanted uint16) uint16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending -= min(max(uint64(charge), 1), c.pending)
	room := c.max - min(c.high-c.low+c.pending, c.max)
	n := min(uint64(max(wanted, 1)), room)
	c.high += n
	return uint16(n)
}
