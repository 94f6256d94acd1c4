package rsock

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"lwio/internal/evict"
)

// errEvicted ends the handshake of a connection that lost its place in the backlog.
var errEvicted = errors.New("the connection lost its place in the backlog before it was negotiated")

// backlog bounds the RDMA connections of a Listener from their request to AcceptConn. A new
// request takes the place of a connection that is not negotiated, so a peer that only sends
// requests keeps no other peer out. Safe for concurrent use.
//
// Source: [WSD §3.2]
type backlog struct {
	most int // places

	mu         sync.Mutex // guards the fields below
	handshakes evict.Table[*place]
	negotiated int // connections that wait for AcceptConn
}

// place is the place of a connection that is not negotiated.
type place struct{ evict context.CancelCauseFunc }

func (b *backlog) init(most int) { b.most = most }

// enter gives a request a place. If there is none, it evicts the oldest handshake of the busiest
// host. It returns nil if all connections are negotiated.
func (b *backlog) enter(host netip.Prefix, end context.CancelCauseFunc) *place {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.handshakes.Len()+b.negotiated >= b.most {
		oldest, ok := b.handshakes.Victim(nil)
		if !ok {
			return nil
		}
		b.handshakes.Remove(oldest)
		oldest.evict(errEvicted)
	}
	p := &place{end}
	b.handshakes.Add(p, host)
	return p
}

// finish gives the place of a handshake to the negotiated connection. It returns false if the
// handshake was evicted.
func (b *backlog) finish(p *place) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	ok := b.handshakes.Remove(p)
	if ok {
		b.negotiated++
	}
	return ok
}

// leave takes the place of a failed handshake back. p may be nil.
func (b *backlog) leave(p *place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handshakes.Remove(p)
}

// accepted takes the place of a negotiated connection back.
func (b *backlog) accepted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.negotiated--
}
