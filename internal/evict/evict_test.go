package evict

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A table agrees with the definition of the victim, however connections come and go.
func TestVictimIsOldestOfTheBusiestHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type conn struct {
			number int
			host   netip.Prefix
			kept   bool
		}
		var table Table[*conn]
		var model []*conn
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(model) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				c := rapid.SampledFrom(model).Draw(t, "which")
				if !table.Remove(c) || table.Remove(c) {
					t.Fatal("a connection is not removed once")
				}
				model = slices.DeleteFunc(model, func(other *conn) bool { return other == c })
			} else {
				ip := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "host") % 3})
				c := &conn{n, HostOf(ip), rapid.Bool().Draw(t, "kept")}
				table.Add(c, c.host)
				model = append(model, c)
			}
			var want *conn
			count := func(h netip.Prefix) (n int) {
				for _, c := range model {
					if c.host == h && !c.kept {
						n++
					}
				}
				return n
			}
			for _, c := range model {
				if !c.kept && (want == nil || count(c.host) > count(want.host) || count(c.host) == count(want.host) && c.number < want.number) {
					want = c
				}
			}
			if got, ok := table.Victim(func(c *conn) bool { return !c.kept }); got != want || ok != (want != nil) {
				t.Fatalf("%+v, want %+v", got, want)
			}
			if table.Len() != len(model) || !slices.Equal(slices.Collect(table.All()), model) {
				t.Fatalf("%d connections, want %d", table.Len(), len(model))
			}
		}
	})
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
