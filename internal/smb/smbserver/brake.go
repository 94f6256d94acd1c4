package smbserver

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
)

// brake bounds how many passwords can be tried, on however many connections: for a
// user from one address so many a minute, for all users from that address, and for the
// user from all addresses, brakeSpread times as many. A failure counts against all
// three. Who is over one of them is refused before his password is looked at.
//
// A user who has logged on from an address before is known there, and only what fails
// for this user from this address counts: strangers cannot lock him out.
//
// Names and addresses are kept as hashes under a secret, so that none takes more room
// than another, and nobody outside chooses what meets what. Safe for concurrent use.
//
// Source: [MS-SMB2 3.3.5.5.3] (the limits are ours)
type brake struct {
	limit float64 // failures a minute; below zero for no limit
	now   func() time.Time

	mu     sync.Mutex
	secret [16]byte
	debts  map[guess]*ratelimit.Bucket
	known  map[guess]time.Time // since when it is unused
}

// errBraked refuses a logon whose password is not looked at.
var errBraked = fmt.Errorf("too many wrong passwords of late: %w", ntstatus.AccountLockedOut)

// guess names a user and an address; one of them may be left out.
type guess [16]byte

const (
	// brakeSpread is how many times as many failures an address or a user has.
	brakeSpread = 4
	// maxGuesses bounds what the brake remembers of each kind.
	maxGuesses = 8192
	// guessSamples is how many entries are compared to find one to forget.
	guessSamples = 8
)

func newBrake(perMinute int) *brake {
	b := &brake{
		limit: float64(perMinute), now: time.Now,
		debts: make(map[guess]*ratelimit.Bucket), known: make(map[guess]time.Time),
	}
	rand.Read(b.secret[:]) // never fails
	return b
}

// guessesOf are the names of a user at an address, of the address, and of the user.
func (b *brake) guessesOf(addr netip.Prefix, user string) (both, from, who guess) {
	name := func(kind, addr, user string) guess {
		h := sha256.New()
		h.Write(b.secret[:])
		h.Write([]byte(kind + addr + " " + user))
		return guess(h.Sum(nil))
	}
	at, user := addr.String(), strings.ToLower(user)
	return name("b", at, user), name("a", at, ""), name("u", "", user)
}

// admits tells whether a password may be tried.
func (b *brake) admits(addr netip.Prefix, user string) bool {
	if b.limit < 0 {
		return true
	}
	both, from, who := b.guessesOf(addr, user)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.belowLocked(now, both, 1) {
		return false
	}
	if _, known := b.known[both]; known {
		return true
	}
	return b.belowLocked(now, from, brakeSpread) && b.belowLocked(now, who, brakeSpread)
}

// belowLocked tells whether one more failure is within the limit, times so many.
func (b *brake) belowLocked(now time.Time, g guess, times float64) bool {
	d := b.debts[g]
	return d == nil || d.Level(now, times*b.limit/60) <= times*b.limit-1
}

// failed counts a wrong password.
func (b *brake) failed(addr netip.Prefix, user string) {
	if b.limit < 0 {
		return
	}
	both, from, who := b.guessesOf(addr, user)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.countLocked(both, 1)
	if _, known := b.known[both]; !known {
		b.countLocked(from, brakeSpread)
		b.countLocked(who, brakeSpread)
	}
}

// countLocked adds a failure. Where there are too many to remember, one that owes
// little is forgotten.
func (b *brake) countLocked(g guess, times float64) {
	now, perSecond := b.now(), times*b.limit/60
	d := b.debts[g]
	if d == nil {
		if len(b.debts) >= maxGuesses {
			forget(b.debts, func(x, y *ratelimit.Bucket) bool { return x.Level(now, perSecond) < y.Level(now, perSecond) })
		}
		d = new(ratelimit.Bucket)
		b.debts[g] = d
	}
	d.Add(now, perSecond, 1)
}

// succeeded makes the user known at the address, and forgives what was mistyped.
func (b *brake) succeeded(addr netip.Prefix, user string) {
	if b.limit < 0 {
		return
	}
	both, _, _ := b.guessesOf(addr, user)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.debts, both)
	if _, known := b.known[both]; !known && len(b.known) >= maxGuesses {
		forget(b.known, time.Time.Before)
	}
	b.known[both] = b.now()
}

// forget takes the least of some entries of a map, which come in no order, out of it.
func forget[V any](m map[guess]V, less func(x, y V) bool) {
	var least guess
	n := 0
	for g, v := range m {
		if n == 0 || less(v, m[least]) {
			least = g
		}
		if n++; n == guessSamples {
			break
		}
	}
	delete(m, least)
}

// origin is what counts as one address: of IPv6 the network of a host, which has all
// addresses of it. What is no IP address counts as one.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // of an IP address, and in range
	return p
}
