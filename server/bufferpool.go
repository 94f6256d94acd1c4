package server

import (
	"context"
	"fmt"
	"math/bits"
	"sync"

	"lwio/internal/account"
	"lwio/internal/buddy"
	"lwio/rdma"
	"lwio/vfs"
)

// blockUnit is the smallest block of a buffer pool, in bytes.
const blockUnit = 4096

// orderOf returns the order of the smallest block that holds n bytes.
func orderOf(n int) int {
	if n <= blockUnit {
		return 0
	}
	return bits.Len(uint((n - 1) / blockUnit))
}

// bufferPool is the memory for the READs of a provider: one memory region, registered once, from
// which operations take blocks. The region has no remote rights. RDMA writes read from it, and no
// peer writes into it [OP-100]. Pages that were never used are never committed.
//
// Without free memory, or above the share of their connection, operations wait in the order of
// arrival. A connection above its share does not delay other connections. The share is a quarter
// of the free memory. It shrinks as connections take blocks, so many slow connections leave memory
// for the next one. One file gets at most three quarters of the share of a connection, and half of
// the pool. For the first block of a file the share does not shrink while much memory is free. So
// an unresponsive file leaves memory for other files. All connections of one user get at most three
// quarters of the pool. Safe for concurrent use.
type bufferPool struct {
	mem    rdma.Memory
	region rdma.MemoryRegion
	bytes  []byte
	share  int // most bytes of one connection, unless it holds none
	half   int // most bytes of one file
	ofUser int // most bytes of one user

	mu     sync.Mutex
	free   *buddy.Range
	spare  int    // free bytes
	queue  opList // operations that wait for memory
	usages map[vfs.NodeID]*fileUsage
	users  map[string]*userUsage
}

// userUsage is the part of the pool that one user holds, on all connections of the provider.
// bufferPool.mu guards it.
type userUsage struct {
	name  string // canonical
	conns int    // connections that have passed AUTH
	held  int    // bytes
}

// fileUsage is the part of the pool that one file holds, for all connections. bufferPool.mu
// guards it.
type fileUsage struct {
	node  vfs.NodeID
	users int // registered files
	held  int // bytes
}

// newBufferPool allocates and registers size bytes, in blocks of up to largest bytes.
func newBufferPool(ctx context.Context, a rdma.Adapter, size, largest int) (*bufferPool, error) {
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
	return &bufferPool{
		mem: mem, region: region, bytes: mem.Bytes()[:size],
		share: max(size/4, blockUnit<<top), half: size / 2, ofUser: size - size/4, free: buddy.New(size/blockUnit, top), spare: size,
		usages: make(map[vfs.NodeID]*fileUsage), users: make(map[string]*userUsage),
	}, nil
}

// joinUser returns the usage of a user and counts one more connection. The connection calls leaveUser
// once it has returned its blocks.
func (p *bufferPool) joinUser(name string) *userUsage {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[name]
	if u == nil {
		u = &userUsage{name: name}
		p.users[name] = u
	}
	u.conns++
	return u
}

// leaveUser ends the use of u by a connection.
func (p *bufferPool) leaveUser(u *userUsage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.conns--; u.conns == 0 {
		delete(p.users, u.name)
	}
}

// join returns the usage of a file and counts one more user. The user calls leave.
func (p *bufferPool) join(node vfs.NodeID) *fileUsage {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.usages[node]
	if u == nil {
		u = &fileUsage{node: node}
		p.usages[node] = u
	}
	u.users++
	return u
}

// leave ends a use of u. The file keeps its blocks until they are returned.
func (p *bufferPool) leave(u *fileUsage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u.users--
	p.forgetLocked(u)
}

// forgetLocked removes u if the file has no users and holds no blocks. Until then a file that is
// registered again gets the same usage, so that its bound holds.
func (p *bufferPool) forgetLocked(u *fileUsage) {
	if u.users == 0 && u.held == 0 {
		delete(p.usages, u.node)
	}
}

// take gives o a block of o.need bytes. Without a free block it returns false. Then o waits as a job
// of its connection, and o.queue receives o when it has a block.
func (p *bufferPool) take(o *op) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.contendedLocked() && p.grantLocked(o) == granted {
		return true
	}
	o.c.jobs.Add(1)
	o.awaitsMemory = true
	p.queue.push(o)
	return false
}

// grantResult is the result of a request for a block.
type grantResult int

const (
	granted grantResult = iota
	noMemory
	overShare
)

// contendedLocked reports whether an operation waits for memory and not for the share of its
// own connection or file.
func (p *bufferPool) contendedLocked() bool {
	for o := p.queue.head; o != nil; o = o.next {
		if !p.overShareLocked(o) {
			return true
		}
	}
	return false
}

// overShareLocked reports whether the connection of o, its user or its file, holds too much to get
// more.
func (p *bufferPool) overShareLocked(o *op) bool {
	size, share, f := blockUnit<<orderOf(o.need), min(p.share, p.spare/4), o.file
	u := o.c.poolUser
	switch {
	case u.held > 0 && u.held+size > p.ofUser:
		return true
	case f.memory > 0 && f.memory+size > share/4*3, f.usage.held > 0 && f.usage.held+size > p.half:
		return true
	case f.memory == 0 && p.spare-size >= p.share:
		share = p.share // other files took the difference
	}
	return o.c.poolBytes > 0 && o.c.poolBytes+size > share
}

// accountLocked adds size bytes to the memory that the connection and the file of o hold. size may
// be negative.
func (p *bufferPool) accountLocked(o *op, size int) {
	o.c.poolBytes += size
	o.c.poolUser.held += size
	o.file.memory += size
	o.file.usage.held += size
	p.spare -= size
}

// grantLocked gives o a block if the shares and the free memory allow it.
func (p *bufferPool) grantLocked(o *op) grantResult {
	if p.overShareLocked(o) {
		return overShare
	}
	order := orderOf(o.need)
	at, ok := p.free.Alloc(order)
	if !ok {
		return noMemory
	}
	o.block = at
	p.accountLocked(o, blockUnit<<order)
	return granted
}

// give returns the block of o to the pool and serves waiting operations.
func (p *bufferPool) give(o *op) {
	p.mu.Lock()
	p.giveLocked(o)
	p.serveAndUnlock()
}

// giveAll returns the blocks of all operations of a list and serves waiting operations.
func (p *bufferPool) giveAll(list *opList) {
	o := list.head
	for o != nil && o.block == none {
		o = o.next
	}
	if o == nil {
		return
	}
	p.mu.Lock()
	for ; o != nil; o = o.next {
		if o.block != none {
			p.giveLocked(o)
		}
	}
	p.serveAndUnlock()
}

// giveLocked returns the block of o to the pool.
func (p *bufferPool) giveLocked(o *op) {
	size := blockUnit * p.free.Release(o.block)
	p.accountLocked(o, -size)
	p.forgetLocked(o.file.usage)
	o.block = none
}

// serveAndUnlock gives blocks to waiting operations and releases mu.
//
// Precondition: mu is held.
func (p *bufferPool) serveAndUnlock() {
	var ready opList
	for w := p.queue.head; w != nil; {
		next := w.next
		result := p.grantLocked(w)
		if result == noMemory {
			break
		}
		if result == granted {
			w.awaitsMemory = false
			p.queue.remove(w)
			ready.push(w)
		}
		w = next
	}
	p.mu.Unlock()
	for w := ready.pop(); w != nil; w = ready.pop() {
		w.queue.push(w)
	}
}

// remove removes o from the queue and reports whether it was there.
func (p *bufferPool) remove(o *op) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !o.awaitsMemory {
		return false
	}
	o.awaitsMemory = false
	p.queue.remove(o)
	return true
}

// usage adds the held and the free memory of the pool to a sum of all pools.
func (p *bufferPool) usage(sum *account.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum.Held += int64(len(p.bytes) - p.spare)
	sum.Limit += int64(len(p.bytes))
	sum.UserLimit += int64(p.ofUser)
	for _, u := range p.users {
		sum.Most = max(sum.Most, int64(u.held))
	}
}

// memory returns the block of o.
func (p *bufferPool) memory(o *op) []byte {
	at := int(o.block) * blockUnit
	return p.bytes[at : at+o.need : at+o.need]
}

// close frees the pool. No block may be in use.
func (p *bufferPool) close() {
	p.region.Close()
	p.mem.Close()
}
