package softrdma

import (
	"sync/atomic"

	"lwio/rdma"
)

// Refusal is the reason why a peer may not access memory.
type Refusal uint8

// The refusals, in the order of the checks.
const (
	Granted     Refusal = iota
	BadToken            // no such token in this domain and stream
	Denied              // the right is missing
	Wraps               // the range wraps around
	OutOfBounds         // the range exceeds the memory
)

// Grant is the right to access memory: of a region until it is closed, or of a window
// until its binding ends. Grants are comparable.
type Grant struct {
	// Region is the region of the memory, or nil for the memory of a window.
	Region *Region

	binding *binding
	token   uint32
}

// Acquire takes a reference. It fails once the right has ended.
func (l *Grant) Acquire() bool {
	if l.binding != nil {
		return l.binding.acquire(l.token)
	}
	return l.Region.Acquire()
}

// Release returns the reference.
func (l *Grant) Release() {
	if l.binding != nil {
		l.binding.release()
		return
	}
	l.Region.Release()
}

// Resolve returns the n bytes at addr of a token, if the peer of the queue pair has the
// wanted rights to them. n is not zero. Every request that this side carries out for a peer
// passes through it. Direct copies of a peer over shared memory do not pass through it
// (package shm). Resolve checks the token in this domain and on this stream, then the
// rights, then the bounds.
//
// Source: [RFC 5041 §7], [RFC 5040 §8.1.1], [RFC 5042 §6.3]
func (t *Windows) Resolve(token uint32, addr, n uint64, want rdma.Access) (Grant, []byte, Refusal) {
	if token&1 == 0 {
		r := t.region(token)
		if r == nil {
			return Grant{}, nil, BadToken
		}
		mem, refused := slice(r.buf, r.base, r.access, addr, n, want)
		return Grant{Region: r}, mem, refused
	}
	l := t.find(token)
	if l == nil || !l.acquire(token) {
		return Grant{}, nil, BadToken
	}
	defer l.release()
	mem, refused := slice(l.buf, l.base, l.access, addr, n, want)
	return Grant{binding: l, token: token}, mem, refused
}

// slice returns the part [addr, addr+n) of memory that begins at base.
func slice(buf []byte, base uint64, has rdma.Access, addr, n uint64, want rdma.Access) ([]byte, Refusal) {
	switch {
	case !has.Has(want):
		return nil, Denied
	case addr+n < addr:
		return nil, Wraps
	case addr < base, addr-base > uint64(len(buf)), n > uint64(len(buf))-(addr-base):
		return nil, OutOfBounds
	}
	off := addr - base
	return buf[off : off+n : off+n], Granted
}

// binding is the memory that a window exposes. After its end it stays in its slot of the
// table for reuse.
type binding struct {
	t *Windows
	// state has the token in its upper half while the binding is in force, else 0. The
	// lower half is the number of references.
	state atomic.Uint64

	// A holder of a reference for the token may read these fields; other readers need the
	// lock.
	token  uint32 // 0: free
	window *Window
	region *Region
	buf    []byte
	base   uint64
	access rdma.Access
}

// acquire takes a reference if the token is in force.
func (l *binding) acquire(token uint32) bool {
	if uint32(l.state.Add(1)>>32) == token {
		return true
	}
	l.release()
	return false
}

func (l *binding) release() {
	if l.state.Add(^uint64(0)) == 0 {
		select {
		case l.t.idle <- struct{}{}:
		default:
		}
	}
}
