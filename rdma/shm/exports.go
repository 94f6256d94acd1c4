//go:build linux

package shm

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// exports has the regions that the peer of a connection may access directly, each in a
// slot of the table in this side's segment, and the memories that were passed to the
// peer. Safe for concurrent use.
type exports struct {
	own, peer *ring.Segment
	raw       syscall.RawConn // of the socket
	peerName  string
	cfg       *Config
	readable  bool         // the peer may read
	peerGone  *atomic.Bool // the peer no longer copies

	mu       sync.Mutex
	used     [ring.Slots]*memory // the memory with each slot's region; nil for a free slot
	memories map[*memory]struct{}
	closed   bool // the segments are unmapped
}

func (x *exports) init(c *conn) {
	x.own, x.peer, x.raw, x.peerName, x.cfg = c.own, c.peer, c.raw, c.peerName, &c.a.p.cfg
	x.readable, x.peerGone = c.limits.Inbound > 0, &c.peerGone
	x.memories = make(map[*memory]struct{})
}

// offer lets the peer access a region directly from now on, within the region's rights.
// It does so only if the memory of the region is not exported on another connection. The
// caller holds a reference to the region.
func (x *exports) offer(r *softrdma.Region) {
	b, ok := r.Backing().(*backing)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.by != nil || m.closed || m.replaced || m.owner != nil && m.owner != x {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	i := x.freeLocked()
	if i < 0 || x.closed {
		return
	}
	fd := -1
	if _, has := x.memories[m]; !has {
		fd = m.fd
	}
	s := x.own.Slot(i)
	at := r.RemoteAddr()
	s.Base.Store(at.Addr)
	s.Size.Store(uint64(len(r.Bytes())))
	s.Offset.Store(uint64(b.off))
	s.Key.Store(uint64(at.Token) | x.rights(r))
	n := notice{kind: noticeShare, memory: m.id, slot: uint32(i), token: uint32(at.Token), size: uint64(len(m.buf))}
	if err := sendNotice(x.raw, n.appendTo(make([]byte, 0, shareSize)), fd); err != nil {
		// The socket is full or closed. The next write may try again.
		s.Key.Store(0)
		return
	}
	m.owner, x.memories[m], x.used[i] = x, struct{}{}, m
	b.by, b.slot = x, i
}

// reachable reports whether the peer has mapped the memory of a region. If the region was
// not offered to the peer yet, and has a remote right, reachable offers it for later
// requests. The caller holds a reference to the region.
func (x *exports) reachable(r *softrdma.Region) bool {
	b, ok := r.Backing().(*backing)
	if !ok {
		return false
	}
	b.mu.Lock()
	by, slot := b.by, b.slot
	b.mu.Unlock()
	if by == nil && x.rights(r) != 0 {
		x.offer(r)
	}
	return by == x && x.peer.Slot(slot).Mapped.Load() == uint64(r.RemoteAddr().Token)|ring.SlotMapped
}

// rights returns the rights bits of a region's slot.
func (x *exports) rights(r *softrdma.Region) (rights uint64) {
	if r.Access().Has(rdma.AccessRemoteWrite) {
		rights |= ring.SlotWrite
	}
	if r.Access().Has(rdma.AccessRemoteRead) && x.readable {
		rights |= ring.SlotRead
	}
	return rights
}

func (x *exports) freeLocked() int {
	for i, used := range x.used {
		if used == nil {
			return i
		}
	}
	return -1
}

// takeBack empties a slot and waits until the peer no longer uses it. It returns false if
// the peer did not stop within Config.DrainTimeout; the slot is then not used again. The
// peer's mapping stays.
func (x *exports) takeBack(i int) bool {
	end := time.Now().Add(x.cfg.DrainTimeout)
	for turn := 0; ; turn++ {
		x.mu.Lock()
		if x.closed {
			x.mu.Unlock()
			return x.peerGone.Load()
		}
		x.own.Slot(i).Key.Store(0)
		if !x.usesLocked(i) {
			x.used[i] = nil
			x.mu.Unlock()
			return true
		}
		x.mu.Unlock()
		if turn > 100 && time.Now().After(end) {
			return false
		}
		pause(turn)
	}
}

// withdraw empties all slots of a memory: later writes to it go through the ring. It
// reports whether the peer has stopped using slot i. A peer that still uses slot i uses
// no other slot, because it announces its slot before it checks the key.
func (x *exports) withdraw(m *memory, i int) (stopped bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return x.peerGone.Load()
	}
	for j, used := range x.used {
		if used == m {
			x.own.Slot(j).Key.Store(0)
		}
	}
	return !x.usesLocked(i)
}

// usesLocked reports whether the peer copies through a slot, or holds data by reference
// in it.
func (x *exports) usesLocked(i int) bool {
	return !x.peerGone.Load() && (x.peer.Busy.Load() == uint64(i+1) || x.peer.Slot(i).References.Load() != 0)
}

// unshare announces to the peer that a memory is no longer used.
func (x *exports) unshare(m *memory) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	delete(x.memories, m)
	n := notice{kind: noticeUnshare, memory: m.id}
	_ = sendNotice(x.raw, n.appendTo(make([]byte, 0, unshareSize)), -1) // a peer that misses it unmaps at the end of the connection
}

// clear empties all slots.
func (x *exports) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.used {
		x.own.Slot(i).Key.Store(0)
	}
}

// close ends the use of the table and unmaps both segments.
func (x *exports) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.memories = nil
	x.own.Unmap()
	x.peer.Unmap()
}
