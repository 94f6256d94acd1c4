//go:build linux

package shm

import (
	"errors"

	"golang.org/x/sys/unix"

	"lwio/rdma/internal/softrdma"
)

// errRing says that the peer's ring or its counters make no sense.
var errRing = errors.New("the peer's ring is inconsistent")

// entrySize is the room that an entry with n bytes takes, if it is not brief.
func entrySize(n int) int { return whole(headerSize + n) }

// producer puts entries into this side's ring. It belongs to who holds the baton
// of the queue pair.
type producer struct {
	own, peer *segment
	tail      uint64
	head      uint64 // what the peer is known to have taken
	placed    uint64 // where the last entry ends that moves data of a write or a read
	skip      int    // bytes that the next entry leaves out, to be at the ring's beginning
	looked    uint64 // the tail when rewind last looked how far the peer is
}

// rewindAfter is how many bytes of a ring are used before a producer that finds it empty
// begins again at its beginning: so two sides that wait for each other use the same few
// pages, which stay in the processors' caches.
const rewindAfter = 16 << 10

// room is how many bytes of the ring are free, at least want if there are so many. A
// look at how far the peer is takes the cache line away from it, so that it is only
// done where what is known does not do.
func (p *producer) room(want int) (int, error) {
	if p.skip = p.rewind(want); p.skip > 0 {
		return len(p.own.ring) - p.skip, nil
	}
	if room := len(p.own.ring) - int(p.tail-p.head); room >= want {
		return room, nil
	}
	head := p.peer.head.Load()
	room, err := p.roomFrom(p.tail, head)
	if err == nil {
		p.head = head
	}
	return room, err
}

// rewind tells how many bytes to leave out so that the next entry, which takes want, is at
// the beginning of the ring; 0 if it stays where it is.
func (p *producer) rewind(want int) int {
	at := int(p.tail & uint64(len(p.own.ring)-1))
	if at < max(rewindAfter, want) {
		return 0
	}
	if p.head != p.tail && p.tail-p.looked >= rewindAfter/4 {
		p.looked = p.tail
		if p.peer.head.Load() == p.tail {
			p.head = p.tail
		}
	}
	if p.head != p.tail {
		return 0
	}
	return len(p.own.ring) - at
}

// published is how many bytes are free, as anybody may ask.
func (p *producer) published() (int, error) {
	return p.roomFrom(p.own.tail.Load(), p.peer.head.Load())
}

func (p *producer) roomFrom(tail, head uint64) (int, error) {
	used := tail - head
	if used > uint64(len(p.own.ring)) {
		return 0, errRing
	}
	return len(p.own.ring) - int(used), nil
}

// clear tells whether the peer took every write and read that was put in. What is in
// the ring then are messages, which nobody has seen: a write that is placed before the
// peer takes them is where it would be if they had been taken at once.
func (p *producer) clear() bool {
	return int64(p.head-p.placed) >= 0 || int64(p.peer.head.Load()-p.placed) >= 0
}

// payload is where the n bytes of payload of the next entry go: they may wrap.
func (p *producer) payload(n int) (a, b []byte) { return p.behind(headerSize, n) }

// behind is payload for a header of that size.
func (p *producer) behind(header, n int) (a, b []byte) {
	return around(p.own.ring, p.tail+uint64(p.skip+header), n)
}

// publish lets the peer see the next entry, whose payload is in place.
func (p *producer) publish(e *entry) {
	p.stage(e)
	p.commit()
}

// stage puts the next entry in, whose payload is in place. The peer sees it with the
// next commit: its look at the tail takes the cache line away each time.
func (p *producer) stage(e *entry) {
	if n := uint32(p.skip); n > 0 {
		skip := entry{kind: entrySkip, length: n - headerSize, total: n - headerSize}
		skip.store(p.own.ring, int(p.tail&uint64(len(p.own.ring)-1)))
		p.tail += uint64(n)
		p.skip = 0
	}
	e.store(p.own.ring, int(p.tail&uint64(len(p.own.ring)-1)))
	p.tail += uint64(e.size())
	if e.kind != entrySend && e.kind != entryBrief && e.kind != entryLend && e.total > 0 {
		p.placed = p.tail
	}
}

// commit lets the peer see all entries that are in.
func (p *producer) commit() {
	raceRelease()
	p.own.tail.Store(p.tail)
}

// giveBack gives the pages of the ring to the system, if the peer took all that was in it.
func (p *producer) giveBack() {
	if sparse(len(p.own.ring)) && p.peer.head.Load() == p.tail {
		_ = unix.Madvise(p.own.ring, unix.MADV_REMOVE) // a wish
	}
}

// consumer takes entries out of the peer's ring. What it reads may change at any
// moment, so it reads each byte of a header once, and checks the copy.
type consumer struct {
	peer *segment
	head uint64 // taken
	tail uint64 // known to be there
	idle bool   // the last look found nothing
}

// arrived tells whether there are entries. Who looks again and again also looks at where the
// next entry will be, so that its first bytes are in the processor's cache, or on the way to
// it, when the tail tells of them. If entries come one upon the other that would only disturb
// the peer, which is writing there.
func (c *consumer) arrived() bool {
	if c.idle {
		c.touch()
	}
	c.idle = c.peer.tail.Load() == c.head
	return !c.idle
}

// next copies the header of the next entry, if there is one.
func (c *consumer) next(e *entry) (ok bool, err error) {
	if c.head == c.tail {
		c.tail = c.peer.tail.Load()
		if c.tail == c.head {
			return false, nil
		}
		raceAcquire()
	}
	there := c.tail - c.head
	if there > uint64(len(c.peer.ring)) || there%headerSize != 0 {
		return false, errRing
	}
	e.load(c.peer.ring, int(c.head&uint64(len(c.peer.ring)-1)))
	if uint64(e.length) > there || uint64(e.size()) > there || e.length > e.total || e.total > softrdma.MaxTransfer {
		return false, errRing
	}
	return true, nil
}

// payload is where the bytes of the next entry are: they may wrap.
func (c *consumer) payload(e *entry) (a, b []byte) {
	return around(c.peer.ring, c.head+uint64(e.header()), int(e.length))
}

// skips tells whether the next entry, which has no payload, ends where the ring does.
func (c *consumer) skips(e *entry) bool {
	return (c.head+uint64(e.size()))&uint64(len(c.peer.ring)-1) == 0
}

// take passes over the next entry.
func (c *consumer) take(e *entry) { c.head += uint64(e.size()) }

// around gives the n bytes of a ring from a position on, in one or two pieces.
func around(ring []byte, pos uint64, n int) (a, b []byte) {
	i := int(pos & uint64(len(ring)-1))
	if n <= len(ring)-i {
		return ring[i : i+n], nil
	}
	return ring[i:], ring[:n-(len(ring)-i)]
}
