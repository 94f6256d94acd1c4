//go:build linux

package shm

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxMemories is how many memories of a peer a connection maps.
const maxMemories = 128

// targets is what this side may write of the peer's memory. The peer can change
// the table in its segment at any moment: each word of it is read once and
// checked against what is mapped.
type targets struct {
	mu       sync.Mutex
	slots    [tableSlots]target
	byToken  map[uint32]int
	memories map[uint32]*peerMemory
	bytes    int64 // mapped
	fence    atomic.Uint32
}

// target is a slot that the peer announced.
type target struct {
	token uint32
	mem   *peerMemory
}

// peerMemory is mapped memory of the peer.
type peerMemory struct{ buf []byte }

func (t *targets) init() {
	t.byToken, t.memories = make(map[uint32]int), make(map[uint32]*peerMemory)
}

// add notes a slot, and maps its memory where that comes with it and fits the
// limit. What is not mapped is reached by copy.
func (t *targets) add(n *notice, fds []int, limit int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	mem := t.memories[n.memory]
	if mem == nil && len(fds) == 1 {
		if len(t.memories) >= maxMemories || int64(n.size) > limit-t.bytes {
			return nil
		}
		buf, err := mapMemfd(fds[0], int(n.size), unix.PROT_READ|unix.PROT_WRITE)
		if err != nil {
			return err
		}
		mem = &peerMemory{buf: buf}
		t.memories[n.memory] = mem
		t.bytes += int64(len(buf))
	} else if mem != nil && len(fds) == 1 {
		return fmt.Errorf("%w: memory %d comes twice", errNotice, n.memory)
	}
	if mem == nil {
		return nil
	}
	t.forgetLocked(int(n.slot))
	t.slots[n.slot] = target{n.token, mem}
	t.byToken[n.token] = int(n.slot)
	return nil
}

func (t *targets) forgetLocked(i int) {
	if s := &t.slots[i]; s.mem != nil {
		if t.byToken[s.token] == i {
			delete(t.byToken, s.token)
		}
		*s = target{}
	}
}

// drop unmaps a memory.
func (t *targets) drop(id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mem := t.memories[id]
	if mem == nil {
		return
	}
	for i := range t.slots {
		if t.slots[i].mem == mem {
			t.forgetLocked(i)
		}
	}
	delete(t.memories, id)
	t.bytes -= int64(len(mem.buf))
	_ = unix.Munmap(mem.buf)
}

// close unmaps everything.
func (t *targets) close() {
	t.mu.Lock()
	ids := make([]uint32, 0, len(t.memories))
	for id := range t.memories {
		ids = append(ids, id)
	}
	t.mu.Unlock()
	for _, id := range ids {
		t.drop(id)
	}
}

// knows tells whether a token may be one that can be written directly.
func (t *targets) knows(token uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byToken[token]
	return ok
}

// reach lets do fill, or read, the peer's memory of length bytes at a remote
// address. It is false, and do is not called, if that cannot be reached directly
// with that right. While do runs, the peer's close of the region waits. The caller
// holds the baton.
func (c *conn) reach(addr uint64, token uint32, length int, right uint64, do func(mem []byte) error) (ok bool, err error) {
	t := &c.targets
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.byToken[token]
	if !ok {
		return false, nil
	}
	c.own.busy.Store(uint64(i + 1))
	old := debug.SetPanicOnFault(true)
	defer func() {
		if e := recovered(old, recover()); e != nil {
			err = e
		}
		c.own.busy.Store(0)
	}()
	s := c.peer.slot(i)
	if key := s.key.Load(); uint32(key) != token || key&right == 0 {
		return false, nil
	}
	base, size, offset := s.base.Load(), s.size.Load(), s.offset.Load()
	buf := t.slots[i].mem.buf
	if !inRange(addr, uint64(length), base, size) || !inRange(offset, size, 0, uint64(len(buf))) {
		return false, nil
	}
	at := offset + (addr - base)
	raceAcquire()
	err = do(buf[at : at+uint64(length) : at+uint64(length)])
	raceRelease()
	return true, err
}
