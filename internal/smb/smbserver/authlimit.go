package smbserver

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
)

// authLimit bounds the wrong passwords per minute, on all connections together: perMinute
// for a user from one address, and authSpread times as many for all users from that address
// and for the user from all addresses. A failure counts against all three bounds. An
// attempt above any bound is refused before its password is compared.
//
// A user that has logged on from an address before is known there, and only failures of
// this user from this address count: other peers cannot lock it out.
//
// Names and addresses are kept as hashes under a secret, so that all take the same space
// and a peer cannot choose colliding ones. It is safe for concurrent use.
//
// Source: [MS-SMB2 3.3.5.5.3] (the limits are ours)
type authLimit struct {
	perMinute float64 // failures; below zero for no limit
	now       func() time.Time

	mu       sync.Mutex
	secret   [16]byte
	failures map[authKey]*ratelimit.Bucket
	known    map[authKey]time.Time // the last logon
}

// errAuthLimited refuses a logon whose password is not compared.
var errAuthLimited = fmt.Errorf("too many wrong passwords recently: %w", ntstatus.AccountLockedOut)

// authKey names a user, an address, or both.
type authKey [16]byte

const (
	// authSpread is the factor by which an address or a user may have more failures.
	authSpread = 4
	// maxAuthKeys bounds the entries of each of the two maps.
	maxAuthKeys = 8192
	// authSamples is the number of entries that are compared to find one to evict.
	authSamples = 8
)

func newAuthLimit(perMinute int) *authLimit {
	a := &authLimit{
		perMinute: float64(perMinute), now: time.Now,
		failures: make(map[authKey]*ratelimit.Bucket), known: make(map[authKey]time.Time),
	}
	rand.Read(a.secret[:]) // never fails
	return a
}

// keys returns the keys of a user at an address, of the address, and of the user.
func (a *authLimit) keys(addr netip.Prefix, user string) (both, from, name authKey) {
	key := func(kind, addr, user string) authKey {
		h := sha256.New()
		h.Write(a.secret[:])
		h.Write([]byte(kind + addr + " " + user))
		return authKey(h.Sum(nil))
	}
	at, user := addr.String(), account.Fold(user)
	return key("b", at, user), key("a", at, ""), key("u", "", user)
}

// admits reports whether a password may be tried.
func (a *authLimit) admits(addr netip.Prefix, user string) bool {
	if a.perMinute < 0 {
		return true
	}
	both, from, name := a.keys(addr, user)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if !a.belowLocked(now, both, 1) {
		return false
	}
	if _, known := a.known[both]; known {
		return true
	}
	return a.belowLocked(now, from, authSpread) && a.belowLocked(now, name, authSpread)
}

// belowLocked reports whether one more failure is within times the limit. Precondition: mu
// is held.
func (a *authLimit) belowLocked(now time.Time, k authKey, times float64) bool {
	f := a.failures[k]
	return f == nil || f.Level(now, times*a.perMinute/60) <= times*a.perMinute-1
}

// failed counts a wrong password.
func (a *authLimit) failed(addr netip.Prefix, user string) {
	if a.perMinute < 0 {
		return
	}
	both, from, name := a.keys(addr, user)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.countLocked(both, 1)
	if _, known := a.known[both]; !known {
		a.countLocked(from, authSpread)
		a.countLocked(name, authSpread)
	}
}

// countLocked adds a failure. A full map evicts an entry with few failures. Precondition:
// mu is held.
func (a *authLimit) countLocked(k authKey, times float64) {
	now, perSecond := a.now(), times*a.perMinute/60
	f := a.failures[k]
	if f == nil {
		if len(a.failures) >= maxAuthKeys {
			evictLeast(a.failures, func(x, y *ratelimit.Bucket) bool { return x.Level(now, perSecond) < y.Level(now, perSecond) })
		}
		f = new(ratelimit.Bucket)
		a.failures[k] = f
	}
	f.Add(now, perSecond, 1)
}

// succeeded makes the user known at the address and clears its failures there.
func (a *authLimit) succeeded(addr netip.Prefix, user string) {
	if a.perMinute < 0 {
		return
	}
	both, _, _ := a.keys(addr, user)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failures, both)
	if _, known := a.known[both]; !known && len(a.known) >= maxAuthKeys {
		evictLeast(a.known, time.Time.Before)
	}
	a.known[both] = a.now()
}

// evictLeast deletes the least of authSamples random entries of a map.
func evictLeast[V any](m map[authKey]V, less func(x, y V) bool) {
	var least authKey
	n := 0
	for k, v := range m {
		if n == 0 || less(v, m[least]) {
			least = k
		}
		if n++; n == authSamples {
			break
		}
	}
	delete(m, least)
}
