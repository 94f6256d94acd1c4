package rsock

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"lwio/rdma"
)

// named is a provider that has only a name and addresses.
func named(name string, addrs ...string) rdma.Provider {
	return &altered{name: name, addrs: addresses(addrs...)}
}

// prefixes returns the subnets of a host.
func prefixes(list ...string) func() ([]netip.Prefix, error) {
	return func() ([]netip.Prefix, error) {
		var all []netip.Prefix
		for _, p := range list {
			all = append(all, netip.MustParsePrefix(p))
		}
		return all, nil
	}
}

// TestRoutesOfDestinations looks up which provider reaches which destination.
func TestRoutesOfDestinations(t *testing.T) {
	cfg := (&Config{
		Providers: []rdma.Provider{
			named("inside"),
			named("roce", "10.1.0.5", "10.2.0.5", "fd00::5"),
			named("iwarp", "127.0.0.1", "192.168.7.5", "10.1.0.5", "10.1.9.5", "fe80::5%eth0", "fe80::6%eth1", "172.16.0.1"),
		},
		hostPrefixes: prefixes("127.0.0.1/8", "::1/128", "10.1.0.5/16", "10.1.9.5/24", "10.2.0.5/16", "192.168.7.5/24",
			"fd00::5/64", "fe80::5/64", "fe80::6/64"),
	}).withDefaults()
	s, err := readSubnets(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	const no, yes = "", "here" // of the fabric inside
	cases := []struct {
		to, from            string
		inside, roce, iwarp string // the source address
	}{
		{to: "127.0.0.1", inside: yes, roce: no, iwarp: "127.0.0.1"},
		{to: "127.9.9.9", inside: yes, roce: no, iwarp: "127.0.0.1"},
		{to: "::1", inside: yes, roce: no, iwarp: no},
		{to: "10.1.0.5", inside: yes, roce: "10.1.0.5", iwarp: "10.1.0.5"},
		{to: "10.1.0.9", inside: no, roce: "10.1.0.5", iwarp: "10.1.0.5"},
		{to: "10.1.9.9", inside: no, roce: "10.1.0.5", iwarp: "10.1.9.5"}, // the smaller subnet
		{to: "10.2.255.255", inside: no, roce: "10.2.0.5", iwarp: no},
		{to: "10.3.0.1", inside: no, roce: no, iwarp: no}, // routed
		{to: "192.168.7.9", inside: no, roce: no, iwarp: "192.168.7.5"},
		{to: "172.16.0.2", inside: no, roce: no, iwarp: no}, // of an address without a subnet
		{to: "172.16.0.1", inside: no, roce: no, iwarp: "172.16.0.1"},
		{to: "fd00::9", inside: no, roce: "fd00::5", iwarp: no},
		{to: "fe80::9%eth0", inside: no, roce: no, iwarp: "fe80::5%eth0"},
		{to: "fe80::9%eth1", inside: no, roce: no, iwarp: "fe80::6%eth1"},
		{to: "10.1.9.9", from: "10.1.0.5", inside: no, roce: "10.1.0.5", iwarp: "10.1.0.5"},
		{to: "10.1.9.9", from: "10.2.0.5", inside: no, roce: no, iwarp: no},
		{to: "10.1.0.5", from: "127.0.0.1", inside: yes, roce: no, iwarp: no},
		{to: "10.1.0.5", from: "10.1.0.77", inside: no, roce: no, iwarp: no},
	}
	for _, c := range cases {
		var from netip.Addr
		if c.from != "" {
			from = netip.MustParseAddr(c.from)
		}
		var got []string
		for _, w := range s.routes(netip.MustParseAddr(c.to), from) {
			switch {
			case w.err != nil && !errors.Is(w.err, ErrOtherHost) && !errors.Is(w.err, ErrNoSubnet):
				t.Error(w.err)
			case w.err != nil:
				got = append(got, no)
			case w.fabric.inHost():
				got = append(got, yes)
			default:
				got = append(got, w.local.String())
			}
		}
		if want := []string{c.inside, c.roce, c.iwarp}; !slices.Equal(got, want) {
			t.Errorf("to %s from %q: %q, want %q", c.to, c.from, got, want)
		}
	}
}

// A provider reaches a destination from its address on the smallest common subnet, in any
// order the provider lists its addresses.
func TestSourceIsOnTheSmallestSubnet(t *testing.T) {
	hosts, _ := prefixes("10.1.0.5/16", "10.1.9.5/24", "10.1.9.129/25")()
	s := &subnetTable{host: hosts}
	large, middle, small := hosts[0].Addr(), hosts[1].Addr(), hosts[2].Addr()
	for _, addrs := range [][]netip.Addr{{large, middle, small}, {small, middle, large}, {middle, small, large}} {
		for to, want := range map[string]netip.Addr{"10.1.9.200": small, "10.1.9.9": middle, "10.1.7.7": large} {
			if got, err := s.source(&fabric{addrs: addrs}, netip.MustParseAddr(to), netip.Addr{}); got != want || err != nil {
				t.Errorf("of %v to %s: %v, %v; want %v", addrs, to, got, err, want)
			}
		}
	}
}

// TestListenEndpointsFollowAddress lists where the RDMA listeners of a listener listen.
func TestListenEndpointsFollowAddress(t *testing.T) {
	cfg := (&Config{
		Providers:    []rdma.Provider{named("inside"), named("roce", "10.1.0.5", "fd00::5"), named("iwarp", "127.0.0.1", "10.1.0.5")},
		hostPrefixes: prefixes("127.0.0.1/8", "10.1.0.5/16", "fd00::5/64"),
	}).withDefaults()
	s, err := readSubnets(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		at   string
		both bool
		want []string
	}{
		{at: "10.1.0.5:80", want: []string{"inside rsock/10.1.0.5:80", "roce 10.1.0.5:80", "iwarp 10.1.0.5:5080"}},
		{at: "127.0.0.1:80", want: []string{"inside rsock/127.0.0.1:80", "iwarp 127.0.0.1:5080"}},
		{at: "127.0.0.9:80", want: []string{"inside rsock/127.0.0.9:80", "iwarp 127.0.0.9:5080"}},
		{at: "192.0.2.1:80"},
		{at: "0.0.0.0:80", want: []string{"inside rsock/0.0.0.0:80", "roce 10.1.0.5:80", "iwarp 127.0.0.1:5080", "iwarp 10.1.0.5:5080"}},
		{at: "[::]:80", want: []string{"inside rsock/[::]:80", "roce [fd00::5]:80"}},
		{at: "[::]:80", both: true, want: []string{"inside rsock/0.0.0.0:80", "inside rsock/[::]:80", "roce 10.1.0.5:80",
			"roce [fd00::5]:80", "iwarp 127.0.0.1:5080", "iwarp 10.1.0.5:5080"}},
	}
	for _, c := range cases {
		var got []string
		for _, p := range s.listenEndpoints(&cfg, netip.MustParseAddrPort(c.at), c.both) {
			at := p.at.Name
			if !p.fabric.inHost() {
				at = p.at.AddrPort.String()
				if p.local != p.at.AddrPort.Addr() {
					t.Errorf("%s: %v is opened on %v", c.at, p.at, p.local)
				}
			}
			got = append(got, p.at.Fabric+" "+at)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.at, got, c.want)
		}
	}
}

func TestDefaultRDMAAddr(t *testing.T) {
	for _, c := range []struct{ fabric, tcp, want string }{
		{"iwarp", "10.0.0.1:445", "10.0.0.1:5445"},
		{"iwarp", "[::1]:60535", "[::1]:65535"},
		{"iwarp", "10.0.0.1:60536", "10.0.0.1:1024"},
		{"iwarp", "10.0.0.1:65535", "10.0.0.1:6023"},
		{"roce", "10.0.0.1:445", "10.0.0.1:445"},
		{"shm", "10.0.0.1:445", "10.0.0.1:445"},
	} {
		if got := DefaultRDMAAddr(c.fabric, netip.MustParseAddrPort(c.tcp)).String(); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.fabric, c.tcp, got, c.want)
		}
	}
}

// TestSubnetTableIsRenewed reads the table again when it is too old and after invalidate. If
// that fails, the old table stays in use.
func TestSubnetTableIsRenewed(t *testing.T) {
	reads, fail := 0, false
	r := newRouter(&Config{RefreshInterval: time.Hour, hostPrefixes: func() ([]netip.Prefix, error) {
		reads++
		if fail {
			return nil, errBroken
		}
		return prefixes("10.0.0.1/8")()
	}})
	current := func(want int) *subnetTable {
		t.Helper()
		s, err := r.subnets.current(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if reads != want {
			t.Errorf("the addresses were read %d times, want %d", reads, want)
		}
		return s
	}
	first := current(1)
	if current(1) != first {
		t.Error("a fresh table was made anew")
	}
	r.subnets.invalidate()
	second := current(2)
	r.cfg.RefreshInterval = 0 // every table is too old
	third := current(3)
	fail = true
	if second == third || current(4) != third {
		t.Error("the old table is not in use")
	}
	r = newRouter(&Config{hostPrefixes: func() ([]netip.Prefix, error) { return nil, errBroken }})
	if _, err := r.subnets.current(context.Background()); !errors.Is(err, errBroken) {
		t.Errorf("no addresses: %v", err)
	}
}

// TestUnknownHostAddressesLeadToTCP fails to read the addresses of the host.
func TestUnknownHostAddressesLeadToTCP(t *testing.T) {
	l := countTCP(t, "127.0.0.1:0")
	cfg := with(named("roce", "127.0.0.1"))
	cfg.hostPrefixes = func() ([]netip.Prefix, error) { return nil, errBroken }
	c, err := (&Dialer{Config: cfg}).DialConn(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wantIs(t, reasonOf(t, c, "roce"), errBroken)
}

// TestDialTriesBoundListenerFirst lists, inside the host, the listener at the address before
// the listener at all addresses.
func TestDialTriesBoundListenerFirst(t *testing.T) {
	cfg := (*Config)(nil).withDefaults()
	for _, c := range []struct {
		p    rdma.Provider
		to   string
		want []string
	}{
		{named("inside"), "127.0.0.1:80", []string{"rsock/127.0.0.1:80", "rsock/0.0.0.0:80"}},
		{named("inside"), "[::1]:80", []string{"rsock/[::1]:80", "rsock/[::]:80"}},
		{named("inside"), "[fe80::1%eth0]:80", []string{"rsock/[fe80::1]:80", "rsock/[::]:80"}},
		{named("iwarp", "127.0.0.1"), "127.0.0.1:80", []string{"127.0.0.1:5080"}},
	} {
		var got []string
		for _, p := range dialEndpoints(&cfg, *fabricOf(c.p), netip.MustParseAddrPort(c.to), netip.Addr{}) {
			at := p.at.Name
			if at == "" {
				at = p.at.AddrPort.String()
			}
			got = append(got, at)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.to, got, c.want)
		}
	}
}
