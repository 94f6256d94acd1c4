//go:build linux

package shm

import (
	"net"
	"os"
	"testing"
)

// The overflow number is the number of a user only if all users have numbers.
func TestOverflowNumberIsNoUser(t *testing.T) {
	for _, c := range []struct {
		name, uidMap string
		uid, want    uint32
	}{
		{"first namespace", "         0          0 4294967295\n", 65534, 65534},
		{"several ranges for all", "0 100000 65536\n65536 0 100000\n165536 165536 4294801759\n", 65534, 65534},
		{"one user of a container", "0 1000 1\n", 65534, UnmappedUID},
		{"overflow number in a range", "0 100000 65536\n", 65534, UnmappedUID},
		{"another user of a container", "0 100000 65536\n", 7, 7},
		{"no map", "", 65534, UnmappedUID},
		{"unknown form", "0 0 4294967295 more\n", 65534, UnmappedUID},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := users{overflow: overflowUID, all: mapsAll([]byte(c.uidMap))}
			u.once.Do(func() {})
			if got := u.of(c.uid); got != c.want {
				t.Errorf("user %d is %d, want %d", c.uid, got, c.want)
			}
		})
	}
}

// A server under the overflow number takes no peer without a number, unless AllowUID does.
func TestUnmappedPeerIsRefused(t *testing.T) {
	self := uint32(os.Geteuid())
	for name, c := range map[string]struct {
		allow func(uint32) bool
		want  bool
	}{
		"default":           {nil, false},
		"a list of numbers": {func(uid uint32) bool { return uid == self || uid == overflowUID }, false},
		"all users":         {func(uint32) bool { return true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(&Config{AllowUID: c.allow})
			p.users.once.Do(func() { p.users.overflow = self }) // as if this user had no number
			_, addr := newSideOn(t, p, 1<<16).listen(t)
			nc := must[*net.UnixConn](t)(openSocket(t.Context(), "", addr.Name))
			defer nc.Close()
			_, err := p.checkUser(nc)
			if (err == nil) != c.want {
				t.Errorf("the peer: %v", err)
			}
		})
	}
}
