package smbserver

import "sync"

// credits keeps a connection's window of message ids: which the client may
// use, and which it has used. It is safe for concurrent use.
//
// The client holds the ids [low, high) that are not marked. A request takes as
// many as it is charged; its answer grants new ones at high. Ids that the
// client leaves out keep low where it is, so that the window, which never spans
// more than max ids, stops growing until they are used.
//
// Source: [MS-SMB2 3.3.1.1], [MS-SMB2 3.3.5.2.3]
type credits struct {
	max uint64

	mu        sync.Mutex
	low, high uint64
	used      []uint64 // bitmap, by id modulo max
	pending   uint64   // ids taken by requests that are not yet answered
}

// newCredits makes the window that a connection starts with: id 0 alone. limit
// is rounded up to a multiple of 64.
func newCredits(limit int) *credits {
	words := (limit + 63) / 64
	return &credits{max: uint64(words) * 64, high: 1, used: make([]uint64, words)}
}

func (c *credits) bit(id uint64) (word *uint64, mask uint64) {
	at := id % c.max
	return &c.used[at/64], 1 << (at % 64)
}

// take uses the ids of one request. It reports false, and changes nothing, if
// one of them is not the client's to use: the connection is then to be cut.
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

// grant gives new ids for the answer to a request that was charged so much and
// asked for wanted. A client always keeps at least one.
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
