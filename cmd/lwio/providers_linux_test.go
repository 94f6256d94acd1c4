package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestUIDs(t *testing.T) {
	self := uint32(os.Geteuid())
	other := self + 1000
	for text, c := range map[string]struct{ others, more, bad bool }{
		"":                                {},
		"any":                             {others: true, more: true},
		strconv.Itoa(int(other)):          {others: true},
		"7," + strconv.Itoa(int(other)):   {others: true},
		"alice":                           {bad: true},
		"-1":                              {bad: true},
		strconv.Itoa(int(other)) + ",":    {bad: true},
		"4294967296":                      {bad: true},
		"any," + strconv.Itoa(int(other)): {bad: true},
	} {
		var u uids
		if err := u.Set(text); (err != nil) != c.bad {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if c.bad {
			continue
		}
		if !u.allows(0) || !u.allows(self) || u.allows(other) != c.others || u.allows(other+1) != c.more || u.String() != text {
			t.Errorf("%q is read as %+v", text, u)
		}
	}
}

// Both sides take the flag, and it goes with shared memory for their own user.
func TestAllowUID(t *testing.T) {
	s := startServer(t, t.TempDir(), "--allow-uid", "4000000000")
	r := run(t, exitOK, "ls", "--allow-uid", "any", "-v", s.url+"?provider=shm")
	if !strings.Contains(r.err, "provider=shm") {
		t.Errorf("log: %s", r.err)
	}
	run(t, exitUsage, "ls", "--allow-uid", "bob", s.url)
}
