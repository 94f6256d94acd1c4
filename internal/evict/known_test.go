package evict

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A host is known while a user has a session from it, and for ten minutes after the last one.
func TestHostIsKnownBySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKnown()
		want := func(user string) {
			t.Helper()
			if got := k.UserOf(hostNo(1)); got != user {
				t.Errorf("known as %q, want %q", got, user)
			}
		}
		want("")
		k.Enter(hostNo(1), "alice")
		k.Enter(hostNo(1), "bob")
		want("bob")
		k.Leave(hostNo(1))
		time.Sleep(24 * time.Hour)
		want("bob")
		k.Leave(hostNo(1))
		time.Sleep(knownTime - time.Nanosecond)
		want("bob")
		k.Enter(hostNo(1), "alice") // again
		k.Leave(hostNo(1))
		time.Sleep(knownTime - time.Nanosecond)
		want("alice")
		time.Sleep(time.Nanosecond)
		want("")
		if k.UserOf(hostNo(2)) != "" {
			t.Error("another host is known")
		}
		// The end of another session removes it.
		k.Enter(hostNo(2), "alice")
		k.Leave(hostNo(2))
		if len(k.hosts) != 1 || k.remembered.Len() != 1 || len(k.users) != 1 {
			t.Errorf("%d hosts, %d remembered, of %d users", len(k.hosts), k.remembered.Len(), len(k.users))
		}
	})
}

// Hosts without a session are bounded. For a user that has logged on from many hosts the oldest of these
// are forgotten, and no hosts of others, and none with a session.
func TestKnownHostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKnown()
		visit := func(n int, user string) {
			k.Enter(hostNo(n), user)
			k.Leave(hostNo(n))
		}
		for i := range 100 {
			visit(i, fmt.Sprint("user", i%10))
		}
		const first = 1000
		k.Enter(hostNo(first-1), "mallory")
		for i := range 2 * maxRemembered {
			visit(first+i, "mallory")
		}
		if n := k.remembered.Len(); n != maxRemembered || len(k.hosts) != n+1 {
			t.Errorf("%d hosts, %d remembered", len(k.hosts), n)
		}
		for i := range 100 {
			if k.UserOf(hostNo(i)) == "" {
				t.Errorf("host %d is forgotten", i)
			}
		}
		last := first + 2*maxRemembered - 1
		kept := maxRemembered - 100
		if k.UserOf(hostNo(last)) == "" || k.UserOf(hostNo(last-kept+1)) == "" || k.UserOf(hostNo(last-kept)) != "" || k.UserOf(hostNo(first-1)) == "" {
			t.Error("another host than the oldest is forgotten")
		}
	})
}
