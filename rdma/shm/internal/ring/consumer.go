//go:build linux

package ring

// Consumer takes entries out of the peer's ring. The ring may change at any moment: each
// byte of a header is read once, and the copy is checked. One goroutine uses it at a
// time.
type Consumer struct {
	peer *Segment
	head uint64 // bytes taken
	tail uint64 // bytes known to be published
	idle bool   // the last call of Arrived found no entry
}

// NewConsumer makes a consumer for a ring from which head bytes are already taken.
func NewConsumer(peer *Segment, head uint64) Consumer {
	return Consumer{peer: peer, head: head, tail: head}
}

// Head returns the number of bytes taken so far.
func (c *Consumer) Head() uint64 { return c.head }

// Size returns the size of the ring in bytes.
func (c *Consumer) Size() int { return len(c.peer.Ring) }

// Arrived reports whether there are entries. If the previous call found none, Arrived
// also loads the first word of the next entry's place. When the entry is announced, its
// first bytes are then in the processor's cache, or on the way to it. Under a steady
// stream of entries this load would only disturb the peer, which is writing there.
func (c *Consumer) Arrived() bool {
	if c.idle {
		word(c.peer.Ring, int(c.head&uint64(len(c.peer.Ring)-1))).Load()
	}
	c.idle = c.peer.Tail.Load() == c.head
	return !c.idle
}

// Pending reports whether the peer has published entries that are not taken.
func (c *Consumer) Pending() bool { return c.peer.Tail.Load() != c.head }

// Next copies the header of the next entry into e; false means that there is none.
//
// Errors: ErrInconsistent.
func (c *Consumer) Next(e *Entry) (bool, error) {
	if c.head == c.tail {
		c.tail = c.peer.Tail.Load()
		if c.tail == c.head {
			return false, nil
		}
		RaceAcquire()
	}
	there := c.tail - c.head
	if there > uint64(len(c.peer.Ring)) || there%HeaderSize != 0 {
		return false, ErrInconsistent
	}
	e.load(c.peer.Ring, int(c.head&uint64(len(c.peer.Ring)-1)))
	if uint64(e.Length) > there || uint64(e.Size()) > there || e.Length > e.Total {
		return false, ErrInconsistent
	}
	return true, nil
}

// Payload returns the payload of the next entry: two slices if it wraps around.
func (c *Consumer) Payload(e *Entry) (a, b []byte) {
	return around(c.peer.Ring, c.head+uint64(e.Header()), int(e.Length))
}

// Skips reports whether e, the next entry, is a skip that ends at the end of the ring.
func (c *Consumer) Skips(e *Entry) bool {
	return e.Kind == Skip && (c.head+uint64(e.Size()))&uint64(len(c.peer.Ring)-1) == 0
}

// Take removes the next entry.
func (c *Consumer) Take(e *Entry) { c.head += uint64(e.Size()) }
