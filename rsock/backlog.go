package rsock

import (
	"context"
	"errors"
	"net/netip"
	"sync"
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
	handshakes map[*place]struct{}
	hosts      map[netip.Prefix]int // handshakes of each host
	negotiated int                  // connections that wait for AcceptConn
	entered    uint64
}

// place is the place of a connection that is not negotiated.
type place struct {
	host   netip.Prefix
	number uint64 // order of the requests
	evict  context.CancelCauseFunc
}

func (b *backlog) init(most int) {
	b.most = most
	b.handshakes, b.hosts = make(map[*place]struct{}), make(map[netip.Prefix]int)
}

// enter gives a request a place. If there is none, it evicts the oldest handshake of the host
// with the most handshakes. It returns nil if all connections are negotiated.
func (b *backlog) enter(host netip.Prefix, evict context.CancelCauseFunc) *place {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.handshakes)+b.negotiated >= b.most {
		oldest := b.oldestLocked()
		if oldest == nil {
			return nil
		}
		b.removeLocked(oldest)
		oldest.evict(errEvicted)
	}
	b.entered++
	p := &place{host, b.entered, evict}
	b.handshakes[p] = struct{}{}
	b.hosts[host]++
	return p
}

// oldestLocked returns the handshake to evict, or nil if there is no handshake.
func (b *backlog) oldestLocked() (oldest *place) {
	for p := range b.handshakes {
		if oldest == nil || b.hosts[p.host] > b.hosts[oldest.host] ||
			b.hosts[p.host] == b.hosts[oldest.host] && p.number < oldest.number {
			oldest = p
		}
	}
	return oldest
}

// removeLocked takes a place back. It returns false if the place was taken back before.
func (b *backlog) removeLocked(p *place) bool {
	if _, ok := b.handshakes[p]; !ok {
		return false
	}
	delete(b.handshakes, p)
	if b.hosts[p.host]--; b.hosts[p.host] == 0 {
		delete(b.hosts, p.host)
	}
	return true
}

// finish gives the place of a handshake to the negotiated connection. It returns false if the
// handshake was evicted.
func (b *backlog) finish(p *place) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	ok := b.removeLocked(p)
	if ok {
		b.negotiated++
	}
	return ok
}

// leave takes the place of a failed handshake back. p may be nil.
func (b *backlog) leave(p *place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(p)
}

// accepted takes the place of a negotiated connection back.
func (b *backlog) accepted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.negotiated--
}
