package rsock

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"lwio/internal/test/skip"
	"lwio/rdma"
)

// mustBe checks the transports of both ends, and that their addresses agree.
func mustBe(t *testing.T, dialed, accepted *Conn, transport string) {
	t.Helper()
	if d, a := dialed.Transport(), accepted.Transport(); d.Name != transport || a.Name != transport || d.RDMA() != (transport != TransportTCP) {
		t.Fatalf("transports %v and %v, want %s", d, a, transport)
	}
	if dialed.LocalAddr().String() != accepted.RemoteAddr().String() || dialed.RemoteAddr().String() != accepted.LocalAddr().String() {
		t.Errorf("addresses: %v to %v, but %v from %v", dialed.LocalAddr(), dialed.RemoteAddr(), accepted.LocalAddr(), accepted.RemoteAddr())
	}
	if accepted.RemoteAddr().(*net.TCPAddr).Port == 0 {
		t.Error("the peer's port is 0")
	}
}

func TestDialByRDMA(t *testing.T) {
	hosts := []struct{ name, listen, dial string }{
		{"the same address", "127.0.0.1:0", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1"},
		{"another loopback address", "127.0.0.2:0", "127.0.0.2"},
		{"a wildcard of both families, by IPv4", ":0", "127.0.0.1"},
		{"a wildcard of both families, by IPv6", ":0", "::1"},
		{"a wildcard of IPv4", "0.0.0.0:0", "127.0.0.1"},
		{"a wildcard of IPv6", "[::]:0", "::1"},
		{"a name", "127.0.0.1:0", "localhost"},
		{"no host", ":0", ""},
		{"the unspecified address", ":0", "0.0.0.0"},
	}
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		for _, h := range hosts {
			t.Run(h.name, func(t *testing.T) {
				needIPv6(t, h.listen)
				l := listenOn(t, &ListenConfig{Config: with(provider())}, h.listen)
				_, port, _ := net.SplitHostPort(l.Addr().String())
				d := &Dialer{Config: with(provider())}
				c, err := d.DialConn(t.Context(), "tcp", net.JoinHostPort(h.dial, port))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				a, err := l.AcceptConn()
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				mustBe(t, c, a, provider().Name())
				echo(t, c, a)
			})
		}
	})
}

// needIPv6 skips a test of an IPv6 address on a host without IPv6.
func needIPv6(t *testing.T, address string) {
	if address[0] != '[' {
		return
	}
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		skip.Test(t, "no IPv6 here", err)
	}
	l.Close()
}

func TestProvidersAreTriedInOrder(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		elsewhere := &altered{Provider: provider(), name: "elsewhere", addrs: addresses("192.0.2.1")}
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		c, a := pairOf(t, &Dialer{Config: with(elsewhere, provider())}, l)
		mustBe(t, c, a, provider().Name())
		wantIs(t, reasonOf(t, c, "elsewhere"), ErrNoSubnet)
		if s := a.Transport().Skipped; s != nil {
			t.Errorf("the accepting end skipped %v", s)
		}
	})
}

// addresses returns a function that returns fixed addresses.
func addresses(list ...string) func() ([]netip.Addr, error) {
	return func() ([]netip.Addr, error) {
		var addrs []netip.Addr
		for _, a := range list {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return addrs, nil
	}
}

func TestConnectionsFromAGivenAddress(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		c, a := pairFromFixedPort(t, func(from *net.Dialer) *Dialer {
			return &Dialer{Config: with(provider()), NetDialer: from}
		}, l)
		mustBe(t, c, a, provider().Name())
	})
}

func TestAdaptersEndWithTheLastConnection(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		d := &Dialer{Config: with(provider())}
		c1, a1 := pairOf(t, d, l)
		c2, a2 := pairOf(t, d, l)
		services := func(b *router) int {
			b.services.mu.Lock()
			defer b.services.mu.Unlock()
			return len(b.services.byKey)
		}
		if n := services(d.router); n != 1 {
			t.Errorf("two connections have %d adapters in use", n)
		}
		c1.Close()
		if n := services(d.router); n != 1 {
			t.Errorf("after one of two is closed, there are %d adapters in use", n)
		}
		l.Close()
		a1.Close()
		echo(t, c2, a2) // accepted connections outlive the listener
		c2.Close()
		a2.Close()
		// A connection whose peer does not answer at once is closed in the background.
		if err := errors.Join(d.Drain(t.Context()), l.Drain(t.Context())); err != nil {
			t.Error(err)
		}
		if n := services(d.router) + services(l.router); n != 0 {
			t.Errorf("after the last, %d adapters are left", n)
		}
	})
}
