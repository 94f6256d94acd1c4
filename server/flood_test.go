package server

import (
	"net"
	"testing"

	"lwio/internal/wire"
)

// within demands that the server respects its limits.
func (v *env) within() {
	v.t.Helper()
	l, n := &v.e.limits, &v.e.count
	// A displaced connection counts as such until it has released all its resources.
	all, peers, gone := n.connections.Load(), n.unauthenticated.Load(), n.displaced.Load()
	if all > int64(l.Connections) || peers > int64(l.Unauthenticated) || gone > int64(l.Unauthenticated) {
		v.t.Errorf("%d connections, %d of them not authenticated, %d displaced", all, peers, gone)
	}
	if n := int(v.e.credits.sum.Held()); n > l.CreditBudget {
		v.t.Errorf("%d credits of %d", n, l.CreditBudget)
	}
}

// Thousands of clients connect and do not authenticate: some stop before the provider's start-up
// is over, some before AUTH, some have a wrong key. A client with a right key gets through at any
// time, and earlier ones stay.
//
// Source: [LWIO §Connection Authentication] [OP-44] [OP-50c]
func TestFloodOfPeersLeavesRoomForClients(t *testing.T) {
	onEach(t, testFloodOfPeersLeavesRoomForClients)
}

func testFloodOfPeersLeavesRoomForClients(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{Unauthenticated: 8}})
	first := v.client()
	n := v.negotiate(v.sess)
	const rounds = 10
	failures := v.e.count.authFailures.Load()
	for range rounds {
		var sockets []net.Conn
		for range 100 {
			nc := dialSocket(t, n.addr)
			nc.Write([]byte("nothing that is known"))
			sockets = append(sockets, nc)
		}
		for range 12 {
			v.connect(n)
			v.within()
		}
		for range 4 {
			c := v.connect(n)
			msg, _ := c.authMessage(n, authOptions{mutate: func(p *wire.AuthParams) { p.Key = &[16]byte{1} }})
			c.wantDenied(msg)
		}
		good := v.client()
		v.check(good)
		good.connector.Close()
		v.check(first)
		for _, nc := range sockets {
			nc.Close()
		}
	}
	if got := v.e.count.authFailures.Load() - failures; got != 4*rounds {
		t.Errorf("%d failures counted", got)
	}
	if got := v.e.count.rejected.Load(); got != 0 {
		t.Errorf("%d connections rejected", got)
	}
}

// A session that negotiates all the time harms only itself: its used keys stay valid, and other
// sessions negotiate.
//
// Source: [LWIO §Network Discovery] [OP-42] [OP-42b]
func TestFloodOfNegotiationsHarmsOwnSessionOnly(t *testing.T) {
	onEach(t, testFloodOfNegotiationsHarmsOwnSessionOnly)
}

func testFloodOfNegotiationsHarmsOwnSessionOnly(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	used, good := v.client(), newFakeSession(2)
	waiting := v.negotiate(good)
	for range 3000 {
		v.negotiate(v.sess)
	}
	c := v.connect(waiting)
	c.auth(waiting, authOptions{})
	v.check(used)
	last := v.client()
	v.check(last)
}
