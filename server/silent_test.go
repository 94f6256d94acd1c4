package server

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/evict"
	"lwio/rdma"
)

// mpaRequest is a request for a connection: revision 1, CRC, no private data.
var mpaRequest = append([]byte("MPA ID Req Frame"), 0x40, 1, 0, 0)

// dialFrom connects from an address of the loopback network, on systems that have all of them.
func dialFrom(t testing.TB, addr string, n int) net.Conn {
	t.Helper()
	var d net.Dialer
	if runtime.GOOS == "linux" {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 1+byte(n>>16), byte(n>>8), byte(n))}
	}
	nc, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// Ten thousand peers, each from an address of its own, connect over TCP and fall silent: at once, or
// when the server has accepted their request. The server refuses no client meanwhile, and holds no
// more connections than configured.
//
// Source: [LWIO §Connection Authentication] (the limits are ours)
func TestTenThousandSilentPeersKeepNoClientOut(t *testing.T) {
	const peers, window = 10_000, 1024
	v := newEnv(t, envConfig{on: "iwarp", limits: Limits{Unauthenticated: 32, AuthTimeout: time.Hour}})
	first := v.client()
	addr := v.negotiate(v.sess).addr.AddrPort.String()
	var open [window]net.Conn // the newest; the server has evicted all others
	defer func() {
		for _, nc := range open {
			if nc != nil {
				nc.Close()
			}
		}
	}()
	for i := range peers {
		if old := open[i%window]; old != nil {
			old.Close()
		}
		nc := dialFrom(t, addr, i)
		open[i%window] = nc
		if i%4 == 0 {
			if _, err := nc.Write(mpaRequest); err != nil {
				t.Fatal(err)
			}
		}
		if i%1000 == 999 {
			c := v.client()
			v.check(c)
			v.within()
			c.connector.Close()
		}
	}
	v.check(first)
	if n := v.e.count.rejected.Load() + v.e.count.authFailures.Load(); n != 0 {
		t.Errorf("%d connections rejected", n)
	}
}

// A flood of silent peers, each from an address of its own, ends no RDMA connection from an address that
// is known by a user's session or earlier connection, before AUTH, however many there are.
//
// Source: [LWIO §Connection Authentication] (the limits are ours)
func TestFloodEndsNoConnectionOfKnownHost(t *testing.T) {
	const silent, clients = 512, 16
	v := newEnv(t, envConfig{on: "iwarp", limits: Limits{Unauthenticated: 32, AuthTimeout: time.Hour}})
	v.client().connector.Close()
	n := v.negotiate(v.sess)
	conns := make([]*rawClient, clients)
	for i := range conns {
		conns[i] = v.connect(n)
	}
	for i := range silent {
		nc := dialFrom(t, n.addr.AddrPort.String(), i)
		defer nc.Close()
		if _, err := nc.Write(mpaRequest); err != nil {
			t.Fatal(err)
		}
		if i%16 == 0 {
			if _, err := nc.Read(make([]byte, 1)); err != nil { // the server has accepted the request
				t.Fatal(err)
			}
		}
	}
	for _, c := range conns {
		c.auth(n, authOptions{})
		v.check(c)
	}
}

// A host is known to the server, and to its listeners, while a user has an SMB session from it.
//
// Source: [LWIO §Connection Authentication] (the limits are ours)
func TestHostOfSMBSessionIsKnown(t *testing.T) {
	p := &knownPeersProvider{Provider: providers["iwarp"]()}
	s, addr, _ := newServer(t, t.Context(), Config{Lookup: Users{"alice": "secret"}.Lookup, Providers: []rdma.Provider{p}}, t.TempDir())
	eventually(t, "the listener knows", func() bool { return p.userOf.Load() != nil })
	userOf := *p.userOf.Load()
	if user := userOf(loopback); user != "" {
		t.Errorf("known as %q without a session", user)
	}
	_, sess := logOn(t, t.Context(), addr, "alice", "secret", "share")
	if user := userOf(loopback); user != "alice" || s.engine.conns.peers.KnownAs(evict.HostOf(loopback)) != "alice" {
		t.Errorf("known as %q with a session", user)
	}
	if user := userOf(netip.MustParseAddr("127.0.0.2")); user != "" {
		t.Errorf("another host is known as %q", user)
	}
	sess.Close()
	eventually(t, "the session ends", func() bool { return s.Stats().Sessions == 0 })
	if user := userOf(loopback); user != "alice" {
		t.Errorf("known as %q after a session", user)
	}
}

// knownPeersProvider keeps the function that its listener gets.
type knownPeersProvider struct {
	rdma.Provider
	userOf atomic.Pointer[func(netip.Addr) string]
}

func (p *knownPeersProvider) OpenAdapter(ctx context.Context, at netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, at)
	return &knownPeersAdapter{a, p}, err
}

type knownPeersAdapter struct {
	rdma.Adapter
	p *knownPeersProvider
}

func (a *knownPeersAdapter) CreateListener() (rdma.Listener, error) {
	l, err := a.Adapter.CreateListener()
	return &knownPeersListener{l, a.p}, err
}

type knownPeersListener struct {
	rdma.Listener
	p *knownPeersProvider
}

func (l *knownPeersListener) SetKnownPeers(userOf func(netip.Addr) string) { l.p.userOf.Store(&userOf) }
