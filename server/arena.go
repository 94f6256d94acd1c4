package server

import (
	"context"
	"fmt"
	"sync"

	"lwio/rdma"
)

// arena is the memory that reads go through: one region, registered once, from
// which operations take blocks. The region has no remote rights: RDMA writes
// start in it, nothing ends in it [OP-100]. What was never used is never committed.
//
// When the memory, or a connection's share of it, is used up, operations wait
// in the order of arrival, except that a connection over its share holds up
// nobody else. The share is a quarter of what is free: it shrinks as connections
// take theirs, so that many slow ones leave something for the next. Safe for
// concurrent use.
type arena struct {
	mem    rdma.Memory
	region rdma.MemoryRegion
	bytes  []byte
	share  int // bytes that one connection may hold at most, if it holds anything

	mu    sync.Mutex
	free  *buddy
	spare int // bytes that nobody holds
	queue opList
}

// newArena allocates and registers size bytes, in blocks of up to largest.
func newArena(ctx context.Context, a rdma.Adapter, size, largest int) (*arena, error) {
	top := orderOf(largest)
	size = max(size/(blockUnit<<top), 4) * (blockUnit << top)
	mem, err := a.Alloc(ctx, size)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of read buffers: %w", size, err)
	}
	region, err := a.RegisterMemory(ctx, mem.Bytes()[:size], 0)
	if err != nil {
		mem.Close()
		return nil, fmt.Errorf("register %d bytes of read buffers: %w", size, err)
	}
	return &arena{
		mem: mem, region: region, bytes: mem.Bytes()[:size],
		share: max(size/4, blockUnit<<top), free: newBuddy(size/blockUnit, top), spare: size,
	}, nil
}

// take gives o a block of o.need bytes. If there is none now, o waits, take
// returns false, and o.lane gets o together with its block later.
func (a *arena) take(o *op) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.crowded() && a.grant(o) == granted {
		return true
	}
	o.inArena = true
	a.queue.push(o)
	return false
}

// What became of the wish for a block.
type grantResult int

const (
	granted grantResult = iota
	noMemory
	overShare
)

// crowded reports whether somebody waits for more than his own share.
func (a *arena) crowded() bool {
	for o := a.queue.head; o != nil; o = o.next {
		if !a.overShare(o) {
			return true
		}
	}
	return false
}

// overShare reports whether o's connection holds too much to get more.
func (a *arena) overShare(o *op) bool {
	return o.c.held > 0 && o.c.held+blockUnit<<orderOf(o.need) > min(a.share, a.spare/4)
}

// grant gives o a block, if it can.
func (a *arena) grant(o *op) grantResult {
	if a.overShare(o) {
		return overShare
	}
	order := orderOf(o.need)
	at, ok := a.free.alloc(order)
	if !ok {
		return noMemory
	}
	o.block = at
	o.c.held += blockUnit << order
	a.spare -= blockUnit << order
	return granted
}

// give takes o's block back and serves who waits.
func (a *arena) give(o *op) {
	a.mu.Lock()
	size := blockUnit * a.free.release(o.block)
	o.c.held -= size
	a.spare += size
	o.block = none
	var ready opList
	for w := a.queue.head; w != nil; {
		next := w.next
		result := a.grant(w)
		if result == noMemory {
			break
		}
		if result == granted {
			w.inArena = false
			a.queue.remove(w)
			ready.push(w)
		}
		w = next
	}
	a.mu.Unlock()
	for w := ready.pop(); w != nil; w = ready.pop() {
		w.lane.push(w)
	}
}

// remove takes o off the queue and reports whether it was there.
func (a *arena) remove(o *op) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !o.inArena {
		return false
	}
	o.inArena = false
	a.queue.remove(o)
	return true
}

// memory is o's block.
func (a *arena) memory(o *op) []byte {
	at := int(o.block) * blockUnit
	return a.bytes[at : at+o.need : at+o.need]
}

// close frees everything; nothing may be in use any more.
func (a *arena) close() {
	a.region.Close()
	a.mem.Close()
}
