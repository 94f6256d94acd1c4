// Package evict chooses the connection that makes room for a new one: the oldest of the host that has
// the most. So a host that floods a server evicts its own connections, and a flood from many hosts
// evicts the connections that have waited longest.
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

// Table holds connections of hosts in the order of arrival. The zero value is empty. It has no lock
// of its own.
type Table[C comparable] struct {
	entries []entry[C]
}

type entry[C comparable] struct {
	conn C
	host netip.Prefix
}

// Add adds a connection. It is not in the table.
func (t *Table[C]) Add(c C, host netip.Prefix) { t.entries = append(t.entries, entry[C]{c, host}) }

// Remove removes a connection, and reports whether it was in the table.
func (t *Table[C]) Remove(c C) bool {
	i := slices.IndexFunc(t.entries, func(e entry[C]) bool { return e.conn == c })
	if i < 0 {
		return false
	}
	t.entries = slices.Delete(t.entries, i, i+1)
	return true
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

// Victim returns the oldest connection of the host that has the most of them. Only connections for
// which may returns true count; nil stands for all. ok is false without one.
func (t *Table[C]) Victim(may func(C) bool) (victim C, ok bool) {
	candidates := t.entries
	if may != nil {
		candidates = nil
		for _, e := range t.entries {
			if may(e.conn) {
				candidates = append(candidates, e)
			}
		}
	}
	hosts := make(map[netip.Prefix]int)
	most := 0
	for _, e := range candidates {
		hosts[e.host]++
		most = max(most, hosts[e.host])
	}
	for _, e := range candidates {
		if hosts[e.host] == most {
			return e.conn, true
		}
	}
	return victim, false
}
