//go:build linux

package shm

import (
	"sync"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// shares are the regions that the peer of a connection may reach directly, each a
// slot of the table in this side's segment, and the memories it was given for
// that.
type shares struct {
	mu       sync.Mutex
	used     [ring.Slots]*memory // that the region lies in, nil for a free slot
	memories map[*memory]struct{}
	closed   bool // the segments are unmapped
}

func (s *shares) init() { s.memories = make(map[*memory]struct{}) }

// offer lets the peer reach a region directly from now on, as its rights say, if it
// lies in memory that is not another connection's. The caller holds a reference to
// the region.
func (c *conn) offer(r *softrdma.Region) {
	b, ok := r.Backing().(*backing)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.by != nil || m.closed || m.replaced || m.owner != nil && m.owner != c {
		return
	}
	c.share.mu.Lock()
	defer c.share.mu.Unlock()
	i := c.share.freeLocked()
	if i < 0 || c.share.closed {
		return
	}
	fd := -1
	if _, has := c.share.memories[m]; !has {
		fd = m.fd
	}
	s := c.own.Slot(i)
	at := r.RemoteAddr()
	s.Base.Store(at.Addr)
	s.Size.Store(uint64(len(r.Bytes())))
	s.Offset.Store(uint64(b.off))
	s.Key.Store(uint64(at.Token) | c.slotRights(r))
	n := notice{kind: noticeShare, memory: m.id, slot: uint32(i), token: uint32(at.Token), size: uint64(len(m.buf))}
	if err := sendNotice(c.raw, n.appendTo(make([]byte, 0, shareSize)), fd); err != nil {
		// The socket is full, or over: the next write may try again.
		s.Key.Store(0)
		return
	}
	m.owner, c.share.memories[m], c.share.used[i] = c, struct{}{}, m
	b.by, b.slot = c, i
}

// slotRights are the rights of a region's slot.
func (c *conn) slotRights(r *softrdma.Region) (rights uint64) {
	if r.Access().Has(rdma.AccessRemoteWrite) {
		rights |= ring.SlotWrite
	}
	if r.Access().Has(rdma.AccessRemoteRead) && c.limits.Inbound > 0 {
		rights |= ring.SlotRead
	}
	return rights
}

func (s *shares) freeLocked() int {
	for i, used := range s.used {
		if used == nil {
			return i
		}
	}
	return -1
}

// takeBack empties a slot and waits until the peer has stopped to use it. It is
// false if the peer did not stop in time; the slot is not used again then. The
// peer's mapping stays, whatever it does with it.
func (c *conn) takeBack(i int) bool {
	end := time.Now().Add(c.a.p.cfg.DrainTimeout)
	for turn := 0; ; turn++ {
		c.share.mu.Lock()
		if c.share.closed {
			c.share.mu.Unlock()
			return c.gone.Load()
		}
		c.own.Slot(i).Key.Store(0)
		if !c.usesLocked(i) {
			c.share.used[i] = nil
			c.share.mu.Unlock()
			return true
		}
		c.share.mu.Unlock()
		if turn > 100 && time.Now().After(end) {
			return false
		}
		pause(turn)
	}
}

// withdraw empties all slots of a memory: what is written to it comes by copy from
// now on. It tells whether the peer uses the given slot no more. If it still does, it
// uses no other: it says which one it is in before it looks whether it may.
func (c *conn) withdraw(m *memory, i int) (stopped bool) {
	c.share.mu.Lock()
	defer c.share.mu.Unlock()
	if c.share.closed {
		return c.gone.Load()
	}
	for j, used := range c.share.used {
		if used == m {
			c.own.Slot(j).Key.Store(0)
		}
	}
	return !c.usesLocked(i)
}

// usesLocked tells whether the peer copies by a slot, or has a loan in it.
func (c *conn) usesLocked(i int) bool {
	return !c.gone.Load() && (c.peer.Busy.Load() == uint64(i+1) || c.peer.Slot(i).References.Load() != 0)
}

// unshare tells the peer that a memory is not used any more.
func (c *conn) unshare(m *memory) {
	c.share.mu.Lock()
	defer c.share.mu.Unlock()
	if c.share.closed {
		return
	}
	delete(c.share.memories, m)
	n := notice{kind: noticeUnshare, memory: m.id}
	_ = sendNotice(c.raw, n.appendTo(make([]byte, 0, unshareSize)), -1) // a peer that misses it unmaps at the end
}

// clear takes all slots back.
func (s *shares) clear(own *ring.Segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.used {
		own.Slot(i).Key.Store(0)
	}
}

// close unmaps the segments.
func (s *shares) close(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.memories = nil
	c.own.Unmap()
	c.peer.Unmap()
}
