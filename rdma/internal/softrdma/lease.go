package softrdma

import (
	"sync/atomic"

	"lwio/rdma"
)

// Refusal says why a peer may not touch what it names.
type Refusal uint8

// The refusals, in the order in which the reasons for them are looked for.
const (
	Granted     Refusal = iota
	BadToken            // no such token, or none of this domain and stream
	Denied              // the right is missing
	Wraps               // the range wraps around
	OutOfBounds         // the range is not all in the memory
)

// Lease is the right to touch memory: that of a region as long as it is open, or
// that of a window as long as one binding is in force. Leases can be compared.
type Lease struct {
	// Region is whose memory it is, or nil if a window lends it.
	Region *Region

	lent  *lent
	token uint32
}

// Acquire takes a reference; it fails once the right is gone.
func (l *Lease) Acquire() bool {
	if l.lent != nil {
		return l.lent.acquire(l.token)
	}
	return l.Region.Acquire()
}

// Release gives it back.
func (l *Lease) Release() {
	if l.lent != nil {
		l.lent.release()
		return
	}
	l.Region.Release()
}

// Resolve finds the n bytes that the peer of the queue pair calls addr of a
// token, if it may do with them what it wants. n is not zero. It is the one way
// of a peer's request to memory of this side: the token must be valid in this
// domain and on this stream, then the rights count, then the bounds.
//
// Source: [RFC 5041 §7], [RFC 5040 §8.1.1], [RFC 5042 §6.3]
func (t *Windows) Resolve(token uint32, addr, n uint64, want rdma.Access) (Lease, []byte, Refusal) {
	if token&1 == 0 {
		r := t.region(token)
		if r == nil {
			return Lease{}, nil, BadToken
		}
		mem, refused := slice(r.buf, r.base, r.access, addr, n, want)
		return Lease{Region: r}, mem, refused
	}
	l := t.find(token)
	if l == nil || !l.acquire(token) {
		return Lease{}, nil, BadToken
	}
	defer l.release()
	mem, refused := slice(l.buf, l.base, l.access, addr, n, want)
	return Lease{lent: l, token: token}, mem, refused
}

// slice is the part [addr, addr+n) of memory that begins at base.
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

// lent is what a window lends. It stays in its slot of the table when that is
// over, for the next.
type lent struct {
	t *Windows
	// state has the token in its upper half while it is in force, else 0, and the
	// number of references in its lower half.
	state atomic.Uint64

	// Who holds a reference for the token may read these; others need the lock.
	token  uint32 // 0: free
	window *Window
	region *Region
	buf    []byte
	base   uint64
	access rdma.Access
}

// acquire takes a reference, if the token is in force.
func (l *lent) acquire(token uint32) bool {
	if uint32(l.state.Add(1)>>32) == token {
		return true
	}
	l.release()
	return false
}

func (l *lent) release() {
	if l.state.Add(^uint64(0)) == 0 {
		select {
		case l.t.idle <- struct{}{}:
		default:
		}
	}
}
