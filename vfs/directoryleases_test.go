package vfs_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// ofDirectory asks for a lease of version 2 of a client that knows leases of directories.
func (h *holder) ofDirectory(n byte, state vfs.LeaseState) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) {
		r.Access = vfs.ListDirectory | vfs.ReadAttributes
		r.Lease = &vfs.LeaseRequest{Key: keyOf(n), State: state, V2: true, Directories: true, Broken: h.broken}
	}
}

// under asks for no state, and names the lease of the directory.
func under(parent *vfs.LeaseKey) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) {
		r.Lease = &vfs.LeaseRequest{Key: keyOf(0xFF), V2: true, Parent: parent, Broken: new(holder).broken}
	}
}

// brokenToNone is the first break of a lease of a directory with the state from.
func brokenToNone(from vfs.LeaseState) vfs.LeaseBreak {
	return vfs.LeaseBreak{From: from, Ack: from != leaseR, V2: true, Epoch: 2}
}

// A lease of a directory has no right to cache writes. An oplock, a lease of version 1 and a lease of a client that
// does not know leases of directories is none.
//
// Source: [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11], [MS-FSA 2.1.5.18]
func TestDirectoryLeaseGrants(t *testing.T) {
	s := newSite(t)
	s.put("d/")
	for asked, want := range map[vfs.LeaseState]vfs.LeaseState{
		0: 0, leaseR: leaseR, leaseRH: leaseRH, leaseRW: leaseR, leaseRWH: leaseRH, vfs.LeaseHandle: 0, vfs.LeaseWrite: 0,
	} {
		o := s.mustOpen("d", new(holder).ofDirectory(1, asked))
		if got := o.Lease(); got.State != want || (got.Epoch == 1) != (want != 0) {
			t.Errorf("asked %b: %+v, want %b", asked, got, want)
		}
		closed(t, o)
	}
	for name, ask := range map[string]func(*vfs.OpenRequest){
		"oplock":    new(holder).oplocked(leaseRWH),
		"version 1": new(holder).leased(1, leaseRH),
		"client without leases of directories": func(r *vfs.OpenRequest) {
			new(holder).ofDirectory(1, leaseRH)(r)
			r.Lease.Directories = false
		},
	} {
		o := s.mustOpen("d", ask)
		if got := o.Lease(); got != (vfs.LeaseInfo{}) {
			t.Errorf("%s: %+v", name, got)
		}
		closed(t, o)
	}
	if got := s.Stats().Leases; got != 0 {
		t.Errorf("%d leases after the last close", got)
	}
}

// entryChange is an operation that changes entries of the directory "d", and of "e" if both is set.
type entryChange struct {
	both bool
	do   func(s *site, ask func(*vfs.OpenRequest)) error
}

// entryChanges are the operations that change an entry at once. Each opens files with the request ask.
var entryChanges = map[string]entryChange{
	"create": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/new", ask, disposition(vfs.Create)).Close()
	}},
	"create a directory": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/new", ask, disposition(vfs.Create), options(vfs.DirectoryFile)).Close()
	}},
	"remove": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/f", ask, options(vfs.DeleteOnClose)).Close()
	}},
	"remove a directory": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		o := s.mustOpen("d/sub", ask)
		return errors.Join(o.SetDeleteOnClose(true), o.Close())
	}},
	"rename": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/f", ask).Rename("d/h", false)
	}},
	"rename a directory": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/sub", ask).Rename("d/h", false)
	}},
	"replace": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/f", ask).Rename("d/g", true)
	}},
	"move out": {both: true, do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/f", ask).Rename("e/f", false)
	}},
	"move in": {both: true, do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("e/x", ask).Rename("d/x", false)
	}},
	"overwrite": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/f", ask, disposition(vfs.Overwrite)).Close()
	}},
	"size": {do: func(s *site, ask func(*vfs.OpenRequest)) error { return s.mustOpen("d/f", ask).Truncate(1) }},
	"times": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/f", ask).SetTimes(vfs.Times{Modified: time.Unix(1, 0)})
	}},
	"attributes": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/f", ask).SetAttributes(vfs.AttrReadOnly)
	}},
	"through another share": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("d/new", ask, disposition(vfs.Create), inShare("again")).Close()
	}},
	"through a link": {do: func(s *site, ask func(*vfs.OpenRequest)) error {
		return s.mustOpen("link/new", ask, disposition(vfs.Create)).Close()
	}},
}

// A change of an entry breaks the leases of its directory, and waits for no acknowledgement, except the lease that
// the open names. Leases of other directories stay.
//
// Source: [MS-FSA 2.1.4.12], [MS-SMB2 3.3.1.4]
func TestChangeOfAnEntryBreaksLeasesOfItsDirectory(t *testing.T) {
	own, foreign := keyOf(1), vfs.LeaseKey{Client: [16]byte{9}, Key: [16]byte{1}}
	for parent, key := range map[string]*vfs.LeaseKey{"no key": nil, "key": &own, "key of another client": &foreign} {
		for name, x := range entryChanges {
			t.Run(parent+"/"+name, func(t *testing.T) {
				s := newSite(t, func(c *vfs.Config) {
					c.Shares = append(c.Shares, vfs.Share{Name: "again", Backend: c.Shares[0].Backend})
				})
				s.put("d/", "d/f", "d/g", "d/sub/", "e/", "e/x")
				if err := os.Symlink("d", s.host("link")); err != nil {
					t.Fatal(err)
				}
				var a, b, c, root holder
				s.mustOpen("d", a.ofDirectory(1, leaseRH))
				s.mustOpen("d", b.ofDirectory(2, leaseR))
				s.mustOpen("e", c.ofDirectory(3, leaseRH))
				s.mustOpen("", root.ofDirectory(4, leaseRH))
				if err := x.do(s, under(key)); err != nil {
					t.Fatal(err)
				}
				if key == &own {
					mustBreak(t, &a)
				} else {
					mustBreak(t, &a, brokenToNone(leaseRH))
				}
				mustBreak(t, &b, brokenToNone(leaseR))
				if x.both {
					mustBreak(t, &c, brokenToNone(leaseRH))
				} else {
					mustBreak(t, &c)
				}
				mustBreak(t, &root)
			})
		}
	}
}

// An operation that changes no entry breaks no lease of the directory.
func TestUseWithoutAChangeKeepsLeasesOfTheDirectory(t *testing.T) {
	s := newSite(t)
	s.put("d/", "d/f", "d/sub/")
	var a holder
	s.mustOpen("d", a.ofDirectory(1, leaseRH))
	o := s.mustOpen("d/f")
	held(t, o, func() {
		if _, err := o.ReadAt(make([]byte, 1), 0); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(o.Sync(), o.SetTimes(vfs.Times{}), o.SetAttributes(0), o.SetDeleteOnClose(true), o.SetDeleteOnClose(false)); err != nil {
		t.Error(err)
	}
	closed(t, o, s.mustOpen("d/sub"), s.mustOpen("d"))
	s.put("d/g") // by a process of the host
	mustBreak(t, &a)
}

// Writes change the entry when the file is flushed or closed.
//
// Source: [MS-FSA 2.1.4.12]
func TestWritesBreakLeasesOfTheDirectoryAtTheEnd(t *testing.T) {
	own := keyOf(1)
	for name, write := range map[string]func(*vfs.Open) error{
		"write":  func(o *vfs.Open) error { _, err := o.WriteAt([]byte("x"), 0); return err },
		"vector": func(o *vfs.Open) error { _, err := o.WriteVec([][]byte{{1}, {2}}, 0); return err },
	} {
		for end, over := range map[string]func(*vfs.Open) error{"close": (*vfs.Open).Close, "flush": (*vfs.Open).Sync} {
			t.Run(name+"/"+end, func(t *testing.T) {
				s := newSite(t)
				s.put("d/", "d/f")
				var a, b holder
				s.mustOpen("d", a.ofDirectory(1, leaseRH))
				s.mustOpen("d", b.ofDirectory(2, leaseRH))
				o := s.mustOpen("d/f", under(&own))
				for range 3 {
					held(t, o, func() {
						if err := write(o); err != nil {
							t.Fatal(err)
						}
					})
				}
				mustBreak(t, &b)
				if err := over(o); err != nil {
					t.Fatal(err)
				}
				mustBreak(t, &a)
				mustBreak(t, &b, brokenToNone(leaseRH))
				if _, err := s.AcknowledgeLease(keyOf(2), 0); err != nil {
					t.Fatal(err)
				}
				closed(t, s.mustOpen("d", b.ofDirectory(2, leaseRH))) // it has the lease again
				closed(t, o)
				mustBreak(t, &b)
			})
		}
	}
}

// A write that fails has changed the entry if it has written something.
func TestFailedWriteBreaksLeasesOfTheDirectory(t *testing.T) {
	s := newSite(t, func(c *vfs.Config) {
		c.Shares[0].Backend = &smallDisk{Backend: c.Shares[0].Backend, room: 4}
	})
	s.put("d/")
	nothing, some := s.mustOpen("d/nothing", disposition(vfs.Create)), s.mustOpen("d/some", disposition(vfs.Create))
	var a holder
	s.mustOpen("d", a.ofDirectory(1, leaseRH))
	for off, o := range map[int64]*vfs.Open{4: nothing, 2: some} {
		held(t, o, func() {
			if _, err := o.WriteAt([]byte("data"), off); !errors.Is(err, ntstatus.DiskFull) {
				t.Fatal(err)
			}
		})
	}
	closed(t, nothing)
	mustBreak(t, &a)
	closed(t, some)
	mustBreak(t, &a, brokenToNone(leaseRH))
}

// The close that removes a file keeps the lease that both its own open and the one that asked for the delete have
// named.
//
// Source: [MS-SMB2 3.3.1.4]
func TestRemovalByAnotherOpenBreaksLeasesOfTheDirectory(t *testing.T) {
	for name, x := range map[string]struct {
		asks, closes byte
		keeps        bool
	}{
		"same":         {1, 1, true},
		"another":      {2, 1, false},
		"none, named":  {0, 1, false},
		"named, none":  {1, 0, false},
		"neither name": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			named := func(n byte) func(*vfs.OpenRequest) {
				key := keyOf(n)
				if n == 0 {
					return under(nil)
				}
				return under(&key)
			}
			s := newSite(t)
			s.put("d/", "d/f")
			var a, b holder
			s.mustOpen("d", a.ofDirectory(1, leaseRH))
			s.mustOpen("d", b.ofDirectory(2, leaseRH))
			asks, closes := s.mustOpen("d/f", named(x.asks)), s.mustOpen("d/f", named(x.closes))
			if err := asks.SetDeleteOnClose(true); err != nil {
				t.Fatal(err)
			}
			closed(t, asks)
			mustBreak(t, &a)
			mustBreak(t, &b)
			closed(t, closes)
			if x.keeps {
				mustBreak(t, &a)
			} else {
				mustBreak(t, &a, brokenToNone(leaseRH))
			}
			mustBreak(t, &b, brokenToNone(leaseRH))
		})
	}
}

// A rename into a directory that an open keeps from changes waits for the close of that open, if a lease delays it. So
// do a rename and a delete of the directory, and an open that the share modes forbid.
//
// Source: [MS-FSA 2.1.5.15.11], [MS-FSA 2.1.5.1.2.2]
func TestRenameWaitsForLeaseOfTheTargetDirectory(t *testing.T) {
	for name, use := range map[string]func(s *site) error{
		"rename into it": func(s *site) error { return s.mustOpen("f").Rename("d/f", false) },
		"rename":         func(s *site) error { return s.mustOpen("d").Rename("e", false) },
		"delete":         func(s *site) error { return s.mustOpen("d").SetDeleteOnClose(true) },
		"open":           func(s *site) error { _, err := s.open("d", sharing(0)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("d/", "f")
			var a holder
			o := s.mustOpen("d", a.ofDirectory(1, leaseRH), access(vfs.ListDirectory|vfs.Delete))
			w := mustWait(t, use(s))
			mustBreak(t, &a, vfs.LeaseBreak{From: leaseRH, To: leaseR, Ack: true, V2: true, Epoch: 2})
			closed(t, o)
			if err := w.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.CloseOwner("alice")
			if err := use(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// Other opens of a directory, and other changes of its entries, do not wait for a client that does not acknowledge the
// break. A lease that is granted meanwhile is broken by the next change.
//
// Source: [MS-FSA 2.1.4.12]
func TestOpenOfADirectoryDoesNotWait(t *testing.T) {
	s := newSite(t)
	s.put("d/")
	var a, b holder
	s.mustOpen("d", a.ofDirectory(1, leaseRH))
	for i := range 3 {
		closed(t, s.mustOpen(fmt.Sprintf("d/%d", i), disposition(vfs.Create)))
		if i == 0 {
			mustBreak(t, &a, brokenToNone(leaseRH))
		}
		o := s.mustOpen("d", b.ofDirectory(2, leaseRH))
		if got := o.Lease().State; got != leaseRH {
			t.Errorf("granted %b beside a lease that is being broken", got)
		}
		closed(t, s.mustOpen(fmt.Sprintf("d/x%d", i), disposition(vfs.Create)), o)
		mustBreak(t, &b, brokenToNone(leaseRH))
	}
	mustBreak(t, &a)
}

// A client that acknowledges late or with too much, or that no break reaches, loses the lease of a directory and
// nothing else.
//
// Source: [MS-SMB2 3.3.6.5], [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.5.22.2]
func TestSilentHolderLosesTheLeaseOfADirectory(t *testing.T) {
	s := newSite(t, func(c *vfs.Config) { c.LeaseTimeout = time.Millisecond })
	s.put("d/", "e/")
	var a, away holder
	away.away = true
	o := s.mustOpen("d", a.ofDirectory(1, leaseRH))
	closed(t, s.mustOpen("d/f", disposition(vfs.Create)))
	if _, err := s.AcknowledgeLease(keyOf(1), leaseR); !errors.Is(err, ntstatus.RequestNotAccepted) {
		t.Errorf("acknowledged with more than offered: %v", err)
	}
	other := s.mustOpen("d")
	if err := mustWait(t, other.Rename("g", false)).Wait(t.Context()); err != nil { // until the time is over
		t.Fatal(err)
	}
	mustBreak(t, &a, brokenToNone(leaseRH))
	if got := o.Lease(); got.State != 0 || got.Breaking {
		t.Errorf("%+v", got)
	}
	if _, err := s.AcknowledgeLease(keyOf(1), 0); !errors.Is(err, ntstatus.Unsuccessful) {
		t.Errorf("acknowledged too late: %v", err)
	}
	if err := other.Rename("g", false); err != nil {
		t.Error(err)
	}
	gone := s.mustOpen("e", away.ofDirectory(2, leaseRH))
	closed(t, s.mustOpen("e/f", disposition(vfs.Create)))
	if got := gone.Lease(); got.State != 0 || got.Breaking {
		t.Errorf("no break reached the client: %+v", got)
	}
	if err := o.ReadDir(true, func(*vfs.FileInfo) bool { return true }); err != nil {
		t.Error(err)
	}
	if got := s.Stats(); got.LeasesRevoked != 2 || got.LeaseBreaks != 2 || got.Leases != 2 {
		t.Errorf("%+v", got)
	}
}

// A client takes a lease and lists a directory while others make files in it. Once these are done, a lease that is not
// broken means that all files are in the listing.
func TestDirectoryLeaseUnderConcurrentChanges(t *testing.T) {
	s := newSite(t)
	const makers, files = 2, 5
	for round := range 40 {
		dir := fmt.Sprintf("%d", round)
		s.put(dir + "/")
		var group sync.WaitGroup
		for i := range makers {
			group.Go(func() {
				for n := range files {
					o, err := s.open(fmt.Sprintf("%s/%d-%d", dir, i, n), disposition(vfs.Create))
					if err != nil {
						t.Error(err)
						return
					}
					closed(t, o)
				}
			})
		}
		var broken atomic.Bool
		o := s.mustOpen(dir, new(holder).ofDirectory(1, leaseR), func(r *vfs.OpenRequest) {
			r.Lease.Broken = func(vfs.LeaseBreak) vfs.LeaseReach {
				broken.Store(true)
				return vfs.LeaseReached
			}
		})
		listed := -2 // the entries . and ..
		if err := o.ReadDir(true, func(*vfs.FileInfo) bool { listed++; return true }); err != nil {
			t.Error(err)
		}
		group.Wait() // an operation may return while another one still sends a break that both need
		if listed < makers*files && !broken.Load() {
			t.Errorf("%d files, %d in the listing, and no break", makers*files, listed)
		}
		closed(t, o)
	}
}
