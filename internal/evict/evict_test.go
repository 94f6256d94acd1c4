package evict

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A table agrees with the definition of the victim, however connections come and go, and hosts become
// known.
func TestVictimIsOldestOfTheBusiestHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var users [6]string // of hosts
		table := Table[*modelConn]{KnownAs: func(host netip.Prefix) string { return users[host.Addr().As4()[3]] }}
		var model []*modelConn
		arrived := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				ip := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "host") % 6})
				arrived++
				c := &modelConn{number: arrived, host: HostOf(ip), kept: rapid.IntRange(0, 3).Draw(t, "kept") == 0}
				table.Add(c, c.host)
				model = append(model, c)
				for _, other := range model {
					if other.host == c.host {
						other.user = users[ip.As4()[3]]
					}
				}
			case 3:
				users[rapid.IntRange(0, 5).Draw(t, "host")] = rapid.SampledFrom([]string{"", "alice", "bob"}).Draw(t, "user")
			case 4:
				if len(model) == 0 {
					continue
				}
				c := rapid.SampledFrom(model).Draw(t, "which")
				if !table.Remove(c) || table.Remove(c) {
					t.Fatal("a connection is not removed once")
				}
				model = slices.DeleteFunc(model, func(other *modelConn) bool { return other == c })
			}
			want := modelVictim(model, arrived)
			if got, ok := table.Victim(func(c *modelConn) bool { return !c.kept }); got != want || ok != (want != nil) {
				t.Fatalf("%+v, want %+v", got, want)
			}
			if table.Len() != len(model) || !slices.Equal(slices.Collect(table.All()), model) {
				t.Fatalf("%d connections, want %d", table.Len(), len(model))
			}
		}
		for len(model) > 0 {
			table.Remove(model[0])
			model = model[1:]
		}
		if len(table.hosts) != 0 {
			t.Errorf("%d hosts without connections", len(table.hosts))
		}
	})
}

// modelConn is a connection of the model of a table.
type modelConn struct {
	number int
	host   netip.Prefix
	user   string
	kept   bool
}

// modelVictim is the definition of the victim, after a number of arrivals: each rule leaves some of the
// candidates.
func modelVictim(conns []*modelConn, arrived int) *modelConn {
	filter := func(in []*modelConn, keep func(*modelConn) bool) (out []*modelConn) {
		for _, c := range in {
			if keep(c) {
				out = append(out, c)
			}
		}
		return out
	}
	candidates := filter(conns, func(c *modelConn) bool { return !c.kept })
	all := len(candidates)
	most := func(weight func(*modelConn) int) {
		best := 0
		for _, c := range candidates {
			best = max(best, weight(c))
		}
		candidates = filter(candidates, func(c *modelConn) bool { return weight(c) == best })
	}
	known := filter(candidates, func(c *modelConn) bool { return c.user != "" })
	unknown := filter(candidates, func(c *modelConn) bool { return c.user == "" })
	if len(unknown) > 0 && 4*len(known) <= 3*len(candidates) {
		candidates = unknown
	} else {
		candidates = known
		most(func(c *modelConn) int {
			return len(filter(candidates, func(other *modelConn) bool { return other.user == c.user }))
		})
	}
	most(func(c *modelConn) int {
		ofHost := filter(candidates, func(other *modelConn) bool { return other.host == c.host })
		return len(ofHost) * min(arrived+1-ofHost[0].number, all)
	})
	if len(candidates) == 0 {
		return nil
	}
	return candidates[0]
}

// hostNo returns a host by number.
func hostNo(n int) netip.Prefix {
	return HostOf(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}))
}

// flood adds connections, each of a host of its own, and makes room for each.
func flood(table *Table[int], n int) (evicted []int) {
	for i := range n {
		table.Add(1000+i, hostNo(1000+i))
		victim, _ := table.Victim(nil)
		table.Remove(victim)
		evicted = append(evicted, victim)
	}
	return evicted
}

// A flood from unknown hosts with one connection each evicts no connection of a known host, however many it
// has within its share. It evicts all connections of another host that has as many.
func TestFloodEvictsNoKnownHost(t *testing.T) {
	for user, want := range map[string]int{"alice": 32, "": 0} {
		table := Table[int]{KnownAs: func(h netip.Prefix) string {
			if h == hostNo(1) {
				return user
			}
			return ""
		}}
		for i := range 32 {
			table.Add(i, hostNo(1))
		}
		for i := range 32 {
			table.Add(100+i, hostNo(100+i))
		}
		left := 32
		for _, c := range flood(&table, 63) {
			if c < 32 {
				left--
			}
		}
		if left != want {
			t.Errorf("known as %q: %d connections are left", user, left)
		}
	}
}

// A flood from unknown hosts does not evict the young connections of an unknown host that has some more than
// each of them: it keeps them for as many arrivals as there are places for each.
func TestYoungConnectionsOfUnknownHostStay(t *testing.T) {
	var table Table[int]
	for i := range 60 {
		table.Add(100+i, hostNo(100+i))
	}
	for i := range 4 {
		table.Add(i, hostNo(1))
	}
	for i, c := range flood(&table, 12) {
		if c != 100+i {
			t.Errorf("connection %d made room for number %d", c, i)
		}
	}
}

// A flood from one host, or from several, evicts only its own connections, however old those of others
// are.
func TestFloodFromFewHostsEvictsItsOwn(t *testing.T) {
	for hosts := 1; hosts <= 16; hosts *= 2 {
		var table Table[int]
		for i := range 16 {
			table.Add(i, hostNo(100+i))
		}
		for i := range 48 {
			table.Add(1000+i, hostNo(i%hosts))
		}
		for i := range 10_000 {
			table.Add(2000+i, hostNo(i%hosts))
			victim, _ := table.Victim(nil)
			if table.Remove(victim); victim < 1000 {
				t.Fatalf("%d hosts: connection %d of another made room for number %d", hosts, victim, i)
			}
		}
	}
}

// Known hosts without end leave a quarter of a table to others, and a user with many of them evicts
// only connections of these.
func TestKnownHostsLeaveRoomForOthers(t *testing.T) {
	table := Table[int]{KnownAs: func(h netip.Prefix) string {
		switch n := h.Addr().As4(); {
		case n == hostNo(1).Addr().As4():
			return "alice"
		case n[2] >= 2: // from 512
			return ""
		}
		return "mallory"
	}}
	for i := range 16 {
		table.Add(i, hostNo(1))
	}
	for i := range 16 {
		table.Add(512+i, hostNo(512+i))
	}
	for i := range 32 {
		table.Add(100+i, hostNo(100+i))
	}
	for i := range 300 { // of mallory, from many hosts
		table.Add(2000+i, hostNo(2+i))
		victim, _ := table.Victim(nil)
		table.Remove(victim)
		if victim < 16 || victim >= 512 && victim < 528 {
			t.Fatalf("connection %d of another made room for %d", victim, i)
		}
	}
}

// Connections of known hosts are taken first, but each fourth time the oldest of all.
func TestTakePrefersKnownHosts(t *testing.T) {
	table := Table[int]{KnownAs: func(h netip.Prefix) string {
		if h == hostNo(1) {
			return "alice"
		}
		return ""
	}}
	if _, ok := table.Take(); ok {
		t.Error("a connection of an empty table")
	}
	for i := range 4 {
		table.Add(i, hostNo(2))
	}
	for i := range 6 {
		table.Add(10+i, hostNo(1))
	}
	var order []int
	for c, ok := table.Take(); ok; c, ok = table.Take() {
		order = append(order, c)
	}
	if want := []int{10, 11, 0, 12, 13, 14, 1, 15, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestVictimOfAllConnections(t *testing.T) {
	var table Table[int]
	if _, ok := table.Victim(nil); ok {
		t.Error("an empty table has a victim")
	}
	busy, quiet := HostOf(netip.MustParseAddr("10.0.0.1")), HostOf(netip.MustParseAddr("10.0.0.2"))
	for i, h := range []netip.Prefix{quiet, busy, busy} {
		table.Add(i, h)
	}
	if got, _ := table.Victim(nil); got != 1 {
		t.Errorf("connection %d, want the oldest of the host with two", got)
	}
}

func TestHostIsAddressOrNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:5": "127.0.0.1/32", "[::ffff:10.0.0.1]:5": "10.0.0.1/32", "[2001:db8::1:2:3:4]:5": "2001:db8::/64",
		"[fe80::1%eth0]:5": "fe80::/64",
	} {
		if got := Host(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))); got.String() != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
	if got := Host(&net.UnixAddr{Name: "x"}); got != (netip.Prefix{}) {
		t.Errorf("a Unix address: %v", got)
	}
	if got := HostOf(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("no address: %v", got)
	}
}
