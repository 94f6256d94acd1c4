//go:build linux

package shm

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// maxMemories is how many memories of a peer a connection maps.
const maxMemories = 128

// recentTargets is how many tokens are found without a lock; a power of two.
const recentTargets = 64

// targets is what this side may reach of the peer's memory. The peer can change
// the table in its segment at any moment: each word of it is read once and
// checked against what is mapped.
type targets struct {
	recent [recentTargets]atomic.Pointer[target] // changed with mu held
	fence  atomic.Uint32

	mu       sync.Mutex
	slots    [ring.Slots]*target
	byToken  map[uint32]*target
	memories map[uint32]*peerMemory

	bytes atomic.Int64 // mapped, also what the peer withdrew and loans keep
	limit int64        // of that
	total *mapped
}

// target is a slot that the peer announced. Who holds the baton uses it without a
// lock: it says in this side's segment that it does, and then looks whether the
// target is still there.
type target struct {
	token uint32
	slot  int
	mem   *peerMemory
	gone  atomic.Bool
	loans int // guarded by loans.mu
}

// peerMemory is mapped memory of the peer. loans.mu guards how many loans there are of
// it, and whether it is to be unmapped with the last.
type peerMemory struct {
	buf     []byte
	loans   int
	dropped bool
}

func (t *targets) init(limit int64, total *mapped) {
	t.limit, t.total = limit, total
	t.byToken, t.memories = make(map[uint32]*target), make(map[uint32]*peerMemory)
}

// add notes a slot, and maps its memory where that comes with it and fits the
// limits. What is not mapped is reached by copy. Only run adds and drops.
func (t *targets) add(n *notice, fds []int, own *ring.Segment) error {
	t.mu.Lock()
	mem, room := t.memories[n.memory], t.limit-t.bytes.Load()
	full := len(t.memories) >= maxMemories
	t.mu.Unlock()
	switch {
	case mem != nil && len(fds) == 1:
		return fmt.Errorf("%w: memory %d comes twice", errNotice, n.memory)
	case mem == nil && (len(fds) == 0 || full || int64(n.size) > room):
		return nil
	case mem == nil && !t.total.take(int64(n.size)):
		return nil
	case mem == nil:
		buf, err := ring.MapMemfd(fds[0], int(n.size))
		if err != nil {
			t.total.give(int64(n.size))
			return err
		}
		mem = &peerMemory{buf: buf}
	}
	// Whoever is copying through the old slot may be at it for as long as a disk takes,
	// and others must find what they look for meanwhile.
	if t.forget(int(n.slot), own) {
		awaitIdle(own, func(slot int) bool { return slot == int(n.slot) })
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.memories[n.memory] == nil {
		t.memories[n.memory] = mem
		t.bytes.Add(int64(len(mem.buf)))
	}
	g := &target{token: n.token, slot: int(n.slot), mem: mem}
	t.slots[n.slot], t.byToken[n.token] = g, g
	own.Slot(g.slot).Mapped.Store(uint64(g.token) | ring.SlotMapped)
	return nil
}

// forget drops what a slot was, and tells whether it was anything.
func (t *targets) forget(slot int, own *ring.Segment) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.slots[slot]
	if old != nil {
		t.forgetLocked(old, own)
	}
	return old != nil
}

func (t *targets) forgetLocked(g *target, own *ring.Segment) {
	g.gone.Store(true)
	own.Slot(g.slot).Mapped.Store(0)
	t.slots[g.slot] = nil
	if t.byToken[g.token] == g {
		delete(t.byToken, g.token)
	}
	t.recent[g.token/2%recentTargets].CompareAndSwap(g, nil)
}

// drop unmaps a memory when nobody uses it.
func (t *targets) drop(id uint32, own *ring.Segment, l *loans) {
	t.mu.Lock()
	mem := t.memories[id]
	if mem == nil {
		t.mu.Unlock()
		return
	}
	var used [ring.Slots]bool
	for i, g := range t.slots {
		if g != nil && g.mem == mem {
			used[i] = true
			t.forgetLocked(g, own)
		}
	}
	delete(t.memories, id)
	t.mu.Unlock()
	awaitIdle(own, func(slot int) bool { return used[slot] })
	if !l.keep(mem) {
		t.unmap(mem)
	}
}

// unmap ends the use of a memory of the peer, which nobody can find any more.
func (t *targets) unmap(mem *peerMemory) {
	_ = unix.Munmap(mem.buf)
	t.bytes.Add(-int64(len(mem.buf)))
	t.total.give(int64(len(mem.buf)))
}

// awaitIdle waits until none of some slots is in use by this side.
func awaitIdle(own *ring.Segment, some func(slot int) bool) {
	for turn := 0; ; turn++ {
		if busy := own.Busy.Load(); busy == 0 || !some(int(busy-1)) {
			return
		}
		pause(turn)
	}
}

// pause lets others work, the longer the more often it was called before.
func pause(turn int) {
	if turn < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(100 * time.Microsecond)
}

// close unmaps everything. Nobody uses anything any more.
func (t *targets) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, mem := range t.memories {
		t.unmap(mem)
	}
	clear(t.memories)
	clear(t.byToken)
	for i := range t.recent {
		t.recent[i].Store(nil)
	}
}

// find gives the target of a token, or nil.
func (t *targets) find(token uint32) *target {
	recent := &t.recent[token/2%recentTargets]
	if g := recent.Load(); g != nil && g.token == token {
		return g
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.byToken[token]
	if g != nil {
		recent.Store(g)
	}
	return g
}

// knows tells whether a token may be one that can be reached directly.
func (t *targets) knows(token uint32) bool { return t.find(token) != nil }

// hold gives the peer's memory of length bytes at a remote address, if that can be
// reached directly with the right; else nil. Until letGo the memory stays mapped,
// and the peer's close of the region waits. The caller holds the baton.
func (c *conn) hold(addr uint64, token uint32, length int, right uint64) []byte {
	g := c.targets.find(token)
	if g == nil {
		return nil
	}
	if busy := uint64(g.slot + 1); c.own.Busy.Load() != busy {
		c.own.Busy.Store(busy) // it stays from one write to the next that is done with it
	}
	if mem := c.check(g, addr, uint64(length), right); mem != nil {
		ring.RaceAcquire()
		return mem
	}
	c.own.Busy.Store(0)
	return nil
}

// letGo ends the use of the peer's memory.
func (c *conn) letGo() {
	ring.RaceRelease()
	c.own.Busy.Store(0)
}

// check gives the n bytes that the peer calls addr, if its table lets this side
// reach them and they are mapped.
func (c *conn) check(g *target, addr, n, right uint64) []byte {
	s := c.peer.Slot(g.slot)
	if key := s.Key.Load(); g.gone.Load() || uint32(key) != g.token || key&right == 0 {
		return nil
	}
	base, size, offset := s.Base.Load(), s.Size.Load(), s.Offset.Load()
	buf := g.mem.buf
	if !inRange(addr, n, base, size) || !inRange(offset, size, 0, uint64(len(buf))) {
		return nil
	}
	at := offset + (addr - base)
	return buf[at : at+n : at+n]
}

// reach lets do fill, or read, the peer's memory of length bytes at a remote
// address. It is false, and do is not called, if that cannot be reached directly
// with that right. The caller holds the baton.
func (c *conn) reach(addr uint64, token uint32, length int, right uint64, do func(mem []byte) error) (ok bool, err error) {
	mem := c.hold(addr, token, length, right)
	if mem == nil {
		return false, nil
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		if e := recovered(old, recover()); e != nil {
			err = e
		}
		c.letGo()
	}()
	return true, do(mem)
}
