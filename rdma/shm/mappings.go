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

// maxMemories is the maximum number of memories of a peer that a connection maps.
const maxMemories = 128

// recentMappings is the number of tokens that are found without a lock. It is a power of
// two.
const recentMappings = 64

// mappings has the mapped memory of the peer. The peer can change the table in its
// segment at any moment: each word of it is read once and checked against the mapping.
type mappings struct {
	own, peer *ring.Segment
	recent    [recentMappings]atomic.Pointer[mapping] // changed with mu held
	fence     atomic.Uint32

	mu       sync.Mutex
	slots    [ring.Slots]*mapping
	byToken  map[uint32]*mapping
	memories map[uint32]*peerMemory

	bytes atomic.Int64 // mapped bytes; memory that the peer withdrew counts while it is referenced
	limit int64        // of bytes
	total *mapped
}

// mapping is a slot that the peer announced. The sending goroutine uses it without a
// lock: it announces the use in this side's segment, and then checks that the mapping
// still exists.
type mapping struct {
	token uint32
	slot  int
	mem   *peerMemory
	gone  atomic.Bool
	refs  int // guarded by references.mu
}

// peerMemory is mapped memory of the peer. references.mu guards refs and dropped; dropped
// means that the last reference unmaps the memory.
type peerMemory struct {
	buf     []byte
	refs    int
	dropped bool
}

func (t *mappings) init(own, peer *ring.Segment, limit int64, total *mapped) {
	t.own, t.peer, t.limit, t.total = own, peer, limit, total
	t.byToken, t.memories = make(map[uint32]*mapping), make(map[uint32]*peerMemory)
}

// add records a slot that the peer announced. If its memory comes with it and fits the
// limits, add maps the memory; otherwise the region is accessed through the ring. Only
// run calls add and drop.
func (t *mappings) add(n *notice, fds []int) error {
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
	// A copy through the old slot may wait for a disk. Lookups must not wait for it.
	if t.forget(int(n.slot)) {
		t.awaitIdle(func(slot int) bool { return slot == int(n.slot) })
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.memories[n.memory] == nil {
		t.memories[n.memory] = mem
		t.bytes.Add(int64(len(mem.buf)))
	}
	g := &mapping{token: n.token, slot: int(n.slot), mem: mem}
	t.slots[n.slot], t.byToken[n.token] = g, g
	t.own.Slot(g.slot).Mapped.Store(uint64(g.token) | ring.SlotMapped)
	return nil
}

// forget drops the mapping of a slot, and reports whether there was one.
func (t *mappings) forget(slot int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.slots[slot]
	if old != nil {
		t.forgetLocked(old)
	}
	return old != nil
}

func (t *mappings) forgetLocked(g *mapping) {
	g.gone.Store(true)
	t.own.Slot(g.slot).Mapped.Store(0)
	t.slots[g.slot] = nil
	if t.byToken[g.token] == g {
		delete(t.byToken, g.token)
	}
	t.recent[g.token/2%recentMappings].CompareAndSwap(g, nil)
}

// drop unmaps a memory when no copy and no reference uses it any more.
func (t *mappings) drop(id uint32, refs *references) {
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
			t.forgetLocked(g)
		}
	}
	delete(t.memories, id)
	t.mu.Unlock()
	t.awaitIdle(func(slot int) bool { return used[slot] })
	if !refs.keep(mem) {
		t.unmap(mem)
	}
}

// unmap unmaps a memory of the peer that no lookup finds any more.
func (t *mappings) unmap(mem *peerMemory) {
	_ = unix.Munmap(mem.buf)
	t.bytes.Add(-int64(len(mem.buf)))
	t.total.give(int64(len(mem.buf)))
}

// awaitIdle waits until this side copies through no slot for which some returns true.
func (t *mappings) awaitIdle(some func(slot int) bool) {
	for turn := 0; ; turn++ {
		if busy := t.own.Busy.Load(); busy == 0 || !some(int(busy-1)) {
			return
		}
		pause(turn)
	}
}

// pause lets other goroutines run. After many turns it sleeps.
func pause(turn int) {
	if turn < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(100 * time.Microsecond)
}

// close unmaps all memory. Precondition: no goroutine uses the mappings any more.
func (t *mappings) close() {
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

// find returns the mapping of a token, or nil.
func (t *mappings) find(token uint32) *mapping {
	recent := &t.recent[token/2%recentMappings]
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

// knows reports whether the region of a token may be accessed directly.
func (t *mappings) knows(token uint32) bool { return t.find(token) != nil }

// acquire returns the peer's memory of length bytes at a remote address, if it can be
// accessed directly with the given right, else nil. Until release it stays mapped, and
// the peer's close of the region waits. Precondition: the caller has the right to send.
func (t *mappings) acquire(addr uint64, token uint32, length int, right uint64) []byte {
	g := t.find(token)
	if g == nil {
		return nil
	}
	if busy := uint64(g.slot + 1); t.own.Busy.Load() != busy {
		t.own.Busy.Store(busy) // Busy stays set between consecutive writes, until release
	}
	if mem := t.check(g, addr, uint64(length), right); mem != nil {
		ring.RaceAcquire()
		return mem
	}
	t.own.Busy.Store(0)
	return nil
}

// release ends the use of the peer's memory.
func (t *mappings) release() {
	ring.RaceRelease()
	t.own.Busy.Store(0)
}

// check returns the n bytes at a remote address, if the peer's table grants the right to
// them and they are mapped, else nil.
func (t *mappings) check(g *mapping, addr, n, right uint64) []byte {
	s := t.peer.Slot(g.slot)
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

// access calls do with the peer's memory of length bytes at a remote address. If the
// memory cannot be accessed directly with the given right, it returns false and does not
// call do. A fault in the memory is an error. Precondition: the caller has the right to
// send.
func (t *mappings) access(addr uint64, token uint32, length int, right uint64, do func(mem []byte) error) (ok bool, err error) {
	mem := t.acquire(addr, token, length, right)
	if mem == nil {
		return false, nil
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		if e := recovered(old, recover()); e != nil {
			err = e
		}
		t.release()
	}()
	return true, do(mem)
}
