package server

import (
	"context"
	"fmt"
	"math/bits"
	"sync"

	"lwio/internal/buddy"
	"lwio/rdma"
	"lwio/vfs"
)

// blockUnit is the smallest block that the arena deals out, in bytes.
const blockUnit = 4096

// orderOf is the order of the smallest block that holds n bytes.
func orderOf(n int) int {
	if n <= blockUnit {
		return 0
	}
	return bits.Len(uint((n - 1) / blockUnit))
}

// arena is the memory that reads go through: one region, registered once, from
// which operations take blocks. The region has no remote rights: RDMA writes
// start in it, nothing ends in it [OP-100]. What was never used is never committed.
//
// When the memory, or a connection's share of it, is used up, operations wait
// in the order of arrival, except that a connection over its share holds up
// nobody else. The share is a quarter of what is free: it shrinks as connections
// take theirs, so that many slow ones leave something for the next. One file gets at
// most three quarters of a connection's share, and half of all, and while there is
// plenty the share does not shrink for the first block of a file: one that does not
// answer leaves something for others. Safe for concurrent use.
type arena struct {
	mem    rdma.Memory
	region rdma.MemoryRegion
	bytes  []byte
	share  int // bytes that one connection may hold at most, if it holds anything
	half   int // the same of one file, in bytes

	mu       sync.Mutex
	free     *buddy.Range
	spare    int // bytes that nobody holds
	queue    opList
	portions map[vfs.NodeID]*portion
}

// portion is what one file holds for all connections. arena.mu guards it.
type portion struct {
	node  vfs.NodeID
	users int // files of connections
	held  int // bytes
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
		share: max(size/4, blockUnit<<top), half: size / 2, free: buddy.New(size/blockUnit, top), spare: size,
		portions: make(map[vfs.NodeID]*portion),
	}, nil
}

// join returns the portion of a file for one more user, who calls part.
func (a *arena) join(node vfs.NodeID) *portion {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.portions[node]
	if p == nil {
		p = &portion{node: node}
		a.portions[node] = p
	}
	p.users++
	return p
}

// part is the end of a user. What the file holds stays until it is given back.
func (a *arena) part(p *portion) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(a.portions, p.node)
	}
}

// take gives o a block of o.need bytes. If there is none now, o waits, as one of the
// connection's jobs, take returns false, and o.line gets o together with its block later.
func (a *arena) take(o *op) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.crowded() && a.grant(o) == granted {
		return true
	}
	o.c.jobs.Add(1)
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

// overShare reports whether o's connection, or its file, holds too much to get more.
func (a *arena) overShare(o *op) bool {
	size, share, f := blockUnit<<orderOf(o.need), min(a.share, a.spare/4), o.file
	switch {
	case f.memory > 0 && f.memory+size > share/4*3, f.portion.held > 0 && f.portion.held+size > a.half:
		return true
	case f.memory == 0 && a.spare-size >= a.share:
		share = a.share // what its other files took is not its fault
	}
	return o.c.held > 0 && o.c.held+size > share
}

// hold counts a block of o's, or one less.
func (a *arena) hold(o *op, size int) {
	o.c.held += size
	o.file.memory += size
	o.file.portion.held += size
	a.spare -= size
}

// grant gives o a block, if it can.
func (a *arena) grant(o *op) grantResult {
	if a.overShare(o) {
		return overShare
	}
	order := orderOf(o.need)
	at, ok := a.free.Alloc(order)
	if !ok {
		return noMemory
	}
	o.block = at
	a.hold(o, blockUnit<<order)
	return granted
}

// give takes o's block back and serves who waits.
func (a *arena) give(o *op) {
	a.mu.Lock()
	a.giveLocked(o)
	a.serve()
}

// giveAll takes the blocks back of those in a list that have one, and serves who waits.
func (a *arena) giveAll(list *opList) {
	o := list.head
	for o != nil && o.block == none {
		o = o.next
	}
	if o == nil {
		return
	}
	a.mu.Lock()
	for ; o != nil; o = o.next {
		if o.block != none {
			a.giveLocked(o)
		}
	}
	a.serve()
}

func (a *arena) giveLocked(o *op) {
	size := blockUnit * a.free.Release(o.block)
	a.hold(o, -size)
	o.block = none
}

// serve gives blocks to who waits. It is called with mu held and returns without.
func (a *arena) serve() {
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
		w.line.push(w)
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

// left is how many bytes nobody has.
func (a *arena) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spare
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
