//go:build linux

package ring

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrInconsistent means that the peer's ring and its counters contradict each other.
var ErrInconsistent = errors.New("the peer's ring is inconsistent")

// Producer puts entries into the ring of a side's own segment. One goroutine uses it at a
// time; only Published may be called concurrently.
type Producer struct {
	own, peer *Segment
	tail      uint64
	head      uint64 // the bytes that the peer is known to have taken
	placed    uint64 // the end of the last entry of a write or a read
	skip      int    // bytes to leave out so that the next entry begins at the ring's beginning
	looked    uint64 // the value of tail when rewind last read the peer's head
}

// NewProducer makes a producer for an empty ring.
func NewProducer(own, peer *Segment) Producer { return Producer{own: own, peer: peer} }

// RewindAfter is the number of bytes of a ring that are used before a producer with an
// empty ring returns to the ring's beginning. Two sides that alternate then use the same
// few pages, which stay in the processors' caches.
const RewindAfter = 16 << 10

// Room returns the number of free bytes of the ring. If at least want bytes are free, the
// result is at least want. To read the peer's head takes its cache line away from the
// peer, so Room reads it only if the known head does not suffice.
func (p *Producer) Room(want int) (int, error) {
	if p.skip = p.rewind(want); p.skip > 0 {
		return len(p.own.Ring) - p.skip, nil
	}
	if room := len(p.own.Ring) - int(p.tail-p.head); room >= want {
		return room, nil
	}
	head := p.peer.Head.Load()
	room, err := p.roomFrom(p.tail, head)
	if err == nil {
		p.head = head
	}
	return room, err
}

// rewind returns the number of bytes to leave out so that the next entry, of want bytes,
// begins at the ring's beginning. It returns 0 if the entry begins where the last one
// ended.
func (p *Producer) rewind(want int) int {
	at := int(p.tail & uint64(len(p.own.Ring)-1))
	if at < max(RewindAfter, want) {
		return 0
	}
	if p.head != p.tail && p.tail-p.looked >= RewindAfter/4 {
		p.looked = p.tail
		if p.peer.Head.Load() == p.tail {
			p.head = p.tail
		}
	}
	if p.head != p.tail {
		return 0
	}
	return len(p.own.Ring) - at
}

// Published returns the number of free bytes by the published counters. Any goroutine may
// call it.
func (p *Producer) Published() (int, error) {
	return p.roomFrom(p.own.Tail.Load(), p.peer.Head.Load())
}

func (p *Producer) roomFrom(tail, head uint64) (int, error) {
	used := tail - head
	if used > uint64(len(p.own.Ring)) {
		return 0, ErrInconsistent
	}
	return len(p.own.Ring) - int(used), nil
}

// OnlySends reports whether the peer took every write and read out of the ring. The ring
// then holds at most sends that no program has seen. A write that is placed directly
// before the peer takes them has the same effect as a write that is placed afterwards.
func (p *Producer) OnlySends() bool {
	return int64(p.head-p.placed) >= 0 || int64(p.peer.Head.Load()-p.placed) >= 0
}

// Payload returns the place for the n payload bytes of the next entry, after a header of
// the given size: two slices if it wraps around. Precondition: Room has returned enough
// bytes for the entry.
func (p *Producer) Payload(header, n int) (a, b []byte) {
	return around(p.own.Ring, p.tail+uint64(p.skip+header), n)
}

// Publish makes the next entry, whose payload is in place, visible to the peer.
func (p *Producer) Publish(e *Entry) {
	p.Stage(e)
	p.Commit()
}

// Stage adds the next entry, whose payload is in place. The peer sees it after the next
// Commit. Each Commit costs the peer a cache miss.
func (p *Producer) Stage(e *Entry) {
	mask := uint64(len(p.own.Ring) - 1)
	if n := uint32(p.skip); n > 0 {
		skip := Entry{Kind: Skip, Length: n - HeaderSize, Total: n - HeaderSize}
		skip.Store(p.own.Ring, int(p.tail&mask))
		p.tail += uint64(n)
		p.skip = 0
	}
	e.Store(p.own.Ring, int(p.tail&mask))
	p.tail += uint64(e.Size())
	if e.Kind != Send && e.Kind != CompactSend && e.Kind != SendByReference && e.Total > 0 {
		p.placed = p.tail
	}
}

// Commit makes all staged entries visible to the peer.
func (p *Producer) Commit() {
	RaceRelease()
	p.own.Tail.Store(p.tail)
}

// TrimIdle returns the pages of an empty ring to the system.
func (p *Producer) TrimIdle() {
	if sparse(len(p.own.Ring)) && p.peer.Head.Load() == p.tail {
		_ = unix.Madvise(p.own.Ring, unix.MADV_REMOVE) // without MADV_REMOVE the pages stay
	}
}

// around returns the n bytes of a ring from a position, in one or two slices.
func around(ring []byte, pos uint64, n int) (a, b []byte) {
	i := int(pos & uint64(len(ring)-1))
	if n <= len(ring)-i {
		return ring[i : i+n], nil
	}
	return ring[i:], ring[:n-(len(ring)-i)]
}
