package smbserver

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// newTestAuthLimit returns an authLimit with a clock of its own.
func newTestAuthLimit(perMinute int) (*authLimit, *time.Time) {
	b, now := newAuthLimit(perMinute), time.Unix(1000, 0)
	b.now = func() time.Time { return now }
	return b, &now
}

// tries returns how many of n wrong passwords are compared.
func (a *authLimit) tries(n int, addr netip.Prefix, user string) int {
	seen := 0
	for range n {
		if a.admits(addr, user) {
			a.failed(addr, user)
			seen++
		}
	}
	return seen
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// The limits of a user from an address, of the address, and of the user; attempts become
// free with time.
//
// Source: [MS-SMB2 3.3.5.5.3] (the limits are ours)
func TestAuthLimitBoundsUserAndAddress(t *testing.T) {
	b, now := newTestAuthLimit(10)
	here, there := prefix("192.0.2.1/32"), prefix("2001:db8::/64")
	if n := b.tries(100, here, "alice"); n != 10 {
		t.Errorf("%d tries of a user from an address", n)
	}
	if n := b.tries(100, here, "ALICE"); n != 0 {
		t.Errorf("%d tries more in capitals", n)
	}
	if b.tries(100, there, "boss"); b.tries(100, there, "bo\u017fs") != 0 {
		t.Error("tries more in another spelling")
	}
	*now = now.Add(12 * time.Second)
	if n := b.tries(100, here, "alice"); n != 2 {
		t.Errorf("%d tries more after 12 seconds", n)
	}
	// 12 of 40 are used up; some have become free again.
	n := 0
	for i := range 100 {
		n += b.tries(1, here, fmt.Sprint("user", i))
	}
	if n != 36 {
		t.Errorf("%d tries of other users from the address", n)
	}
	if b.admits(here, "bob") {
		t.Error("a try of one more")
	}
	if n := b.tries(100, there, "alice"); n != 10 {
		t.Errorf("%d tries from another address", n)
	}
	n = 0
	for i := range 100 {
		n += b.tries(1, prefix(fmt.Sprintf("198.51.100.%d/32", i)), "alice")
	}
	if n != 26 {
		t.Errorf("%d tries of the user from everywhere", n)
	}
	*now = now.Add(time.Minute)
	if !b.admits(here, "bob") || !b.admits(there, "alice") {
		t.Error("refused after a minute")
	}
	off, _ := newTestAuthLimit(-1)
	if n := off.tries(1000, here, "alice"); n != 1000 {
		t.Errorf("%d tries without a limit", n)
	}
}

// A user that has logged on from an address is not locked out there by other peers.
func TestAuthLimitExemptsKnownUsersFromOthersFailures(t *testing.T) {
	b, _ := newTestAuthLimit(10)
	here := prefix("192.0.2.1/32")
	b.succeeded(here, "alice")
	for i := range 100 {
		b.tries(1, prefix(fmt.Sprintf("198.51.100.%d/32", i)), "alice")
		b.tries(1, here, fmt.Sprint("user", i))
	}
	if b.admits(here, "bob") || b.admits(prefix("203.0.113.1/32"), "alice") {
		t.Error("another user passes the limit of the address")
	}
	if n := b.tries(9, here, "alice"); n != 9 {
		t.Errorf("%d tries of a known user", n)
	}
	b.succeeded(here, "alice")
	if n := b.tries(100, here, "alice"); n != 10 {
		t.Errorf("%d tries after one more success", n)
	}
}

// The memory for names and addresses is bounded, and keys with many failures stay in it.
func TestAuthLimitMemoryIsBounded(t *testing.T) {
	b, _ := newTestAuthLimit(10)
	here := prefix("192.0.2.1/32")
	b.tries(100, here, "alice")
	for i := range 3 * maxAuthKeys {
		at := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		b.failed(at, fmt.Sprint("user", i))
		b.succeeded(at, fmt.Sprint("other", i))
	}
	if len(b.failures) > maxAuthKeys || len(b.known) > maxAuthKeys {
		t.Errorf("%d and %d entries", len(b.failures), len(b.known))
	}
	if b.admits(here, "alice") {
		t.Error("the key with most failures was evicted")
	}
}

// Passwords are guessed on many connections at a time. Few are compared, and the right
// password is refused too. A user that is known at its address logs on.
//
// Source: [MS-SMB2 3.3.5.5.3] (the limits are ours)
func TestPasswordGuessingOnManyConnectionsIsLimited(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) {
		c.MaxConnections = 1000
	})
	now := time.Now()
	s.authLimit.mu.Lock()
	s.authLimit.now = func() time.Time { return now } // nothing becomes free
	s.authLimit.mu.Unlock()
	mount(t, addr, "data")
	const guessers, each = 16, 10
	var wg sync.WaitGroup
	for range guessers {
		wg.Go(func() {
			for range each {
				c := dial(t, addr)
				c.mustNegotiate(0x0311)
				c.setup("bob", "wrong", 0)
				c.nc.Close()
			}
		})
	}
	wg.Wait()
	// Some may have been compared concurrently.
	st := s.Stats()
	if n := st.AuthFailures - st.AuthLimited; n < 10 || n > 10+guessers {
		t.Errorf("%d of %d passwords were compared", n, guessers*each)
	}
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := c.setup("bob", testPassword, 0); r.status != ntstatus.AccountLockedOut {
		t.Errorf("the right password in the flood: %v", r.status)
	}
	mount(t, addr, "data").want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	if st := s.Stats(); st.AuthFailures != guessers*each+1 || st.AuthLimited < guessers*each-10-guessers {
		t.Errorf("%d failures, %d not looked at", st.AuthFailures, st.AuthLimited)
	}
}
