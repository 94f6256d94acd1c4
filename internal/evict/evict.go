// Package evict chooses the connection that makes room for a new one: the oldest of the busiest host.
// The busiest host has the largest product of the number of its connections and the age of the oldest of
// them, which is counted in arrivals and at most the number of all connections. So a host that floods a server evicts its own connections, a flood from many hosts evicts the
// connections that have waited longest, and a host with a few young connections keeps them. Hosts from
// which a user has logged on come last: a flood from other hosts does not evict their connections.
//
// The package imports the standard library only.
package evict

import (
	"iter"
	"net"
	"net/netip"
	"slices"
)

// Host returns the part of an address by which limits tell hosts apart: an IPv4 address, or an IPv6
// network of 64 bits. The zero Prefix stands for all addresses without an IP address.
func Host(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return HostOf(tcp.AddrPort().Addr())
}

// HostOf is Host for an IP address.
func HostOf(ip netip.Addr) netip.Prefix {
	if !ip.IsValid() {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // of an IP address, and in range
	return p
}

// The connections of known hosts may be knownShare parts of knownParts of a table, and as many of those
// that Take returns. Beyond that unknown hosts come first, so that the users of known hosts keep no other
// user out.
const (
	knownShare = 3
	knownParts = 4
)

// Table holds connections of hosts in the order of arrival. The zero value is empty. It has no lock
// of its own.
type Table[C comparable] struct {
	// KnownAs returns the user of a known host, "" for an unknown host; nil knows no host. It is
	// called when a connection of the host is added, and its result holds for all connections of the
	// host. See Known.
	KnownAs func(host netip.Prefix) (user string)

	entries []entry[C]
	hosts   map[netip.Prefix]*host // that have entries
	arrived int                    // calls of Add
	taken   uint                   // calls of Take
}

type entry[C comparable] struct {
	conn      C
	host      *host
	number    int  // in the order of arrival
	candidate bool // of the Victim that is being chosen
}

// host is a host with connections in a table.
type host struct {
	prefix     netip.Prefix
	user       string // "" if it is not known
	entries    int
	candidates int // of the Victim that is being chosen
}

// Add adds a connection. It is not in the table.
func (t *Table[C]) Add(c C, from netip.Prefix) {
	h := t.hosts[from]
	if h == nil {
		if t.hosts == nil {
			t.hosts = make(map[netip.Prefix]*host)
		}
		h = &host{prefix: from}
		t.hosts[from] = h
	}
	h.entries++
	if t.KnownAs != nil {
		h.user = t.KnownAs(from)
	}
	t.arrived++
	t.entries = append(t.entries, entry[C]{conn: c, host: h, number: t.arrived})
}

// Remove removes a connection, and reports whether it was in the table.
func (t *Table[C]) Remove(c C) bool {
	i := slices.IndexFunc(t.entries, func(e entry[C]) bool { return e.conn == c })
	if i >= 0 {
		t.removeAt(i)
	}
	return i >= 0
}

func (t *Table[C]) removeAt(i int) {
	h := t.entries[i].host
	if h.entries--; h.entries == 0 {
		delete(t.hosts, h.prefix)
	}
	t.entries = slices.Delete(t.entries, i, i+1)
}

// Take removes the oldest connection of all known hosts and returns it. Each fourth call, and if there
// is none, it takes the oldest of all connections. ok is false without one.
func (t *Table[C]) Take() (c C, ok bool) {
	if len(t.entries) == 0 {
		return c, false
	}
	i := -1
	if t.taken++; t.taken%knownParts < knownShare {
		i = slices.IndexFunc(t.entries, func(e entry[C]) bool { return e.host.user != "" })
	}
	i = max(i, 0)
	c = t.entries[i].conn
	t.removeAt(i)
	return c, true
}

// Len returns the number of connections.
func (t *Table[C]) Len() int { return len(t.entries) }

// All returns the connections in the order of arrival. The table must not change meanwhile.
func (t *Table[C]) All() iter.Seq[C] {
	return func(yield func(C) bool) {
		for i := range t.entries {
			if !yield(t.entries[i].conn) {
				return
			}
		}
	}
}

// Victim returns the oldest connection of the busiest host. It is a host that is not known, unless there
// is none, or the known hosts have more than three quarters of the connections. Among known hosts those
// of the user with the most connections come first. Only connections for which may returns true count;
// nil stands for all. ok is false without one.
func (t *Table[C]) Victim(may func(C) bool) (victim C, ok bool) {
	for i := range t.entries {
		t.entries[i].host.candidates = 0
	}
	unknown, known := 0, 0
	users := make(map[string]int) // connections of their hosts
	for i := range t.entries {
		e := &t.entries[i]
		if e.candidate = may == nil || may(e.conn); !e.candidate {
			continue
		}
		e.host.candidates++
		if e.host.user == "" {
			unknown++
			continue
		}
		known++
		users[e.host.user]++
	}
	ofKnown := unknown == 0 || known*knownParts > (unknown+known)*knownShare
	var ofUser, ofHost int // of the victim
	for i := range t.entries {
		e := &t.entries[i]
		if !e.candidate || (e.host.user != "") != ofKnown {
			continue
		}
		n := users[e.host.user] // the same for all unknown hosts
		age := min(t.arrived-e.number+1, unknown+known)
		weight := e.host.candidates * age
		if n > ofUser || n == ofUser && weight > ofHost {
			victim, ok, ofUser, ofHost = e.conn, true, n, weight
		}
	}
	return victim, ok
}
