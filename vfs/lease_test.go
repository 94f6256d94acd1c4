package vfs_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

const (
	leaseR   = vfs.LeaseRead
	leaseRH  = vfs.LeaseRead | vfs.LeaseHandle
	leaseRW  = vfs.LeaseRead | vfs.LeaseWrite
	leaseRWH = leaseRH | vfs.LeaseWrite
)

// holder is a client that holds leases, and keeps their breaks.
type holder struct {
	breaks []vfs.LeaseBreak
	away   bool
}

func (h *holder) broken(b vfs.LeaseBreak) vfs.LeaseReach {
	if h.away {
		return vfs.LeaseAway
	}
	h.breaks = append(h.breaks, b)
	return vfs.LeaseReached
}

// take returns the breaks since the last call.
func (h *holder) take() []vfs.LeaseBreak {
	all := h.breaks
	h.breaks = nil
	return all
}

func keyOf(n byte) vfs.LeaseKey { return vfs.LeaseKey{Client: [16]byte{n}, Key: [16]byte{n}} }

// leased asks for a lease of a client with that number.
func (h *holder) leased(n byte, state vfs.LeaseState) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) {
		r.Lease = &vfs.LeaseRequest{Key: keyOf(n), State: state, Broken: h.broken}
	}
}

// oplocked asks for an oplock.
func (h *holder) oplocked(state vfs.LeaseState) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) {
		r.Lease = &vfs.LeaseRequest{Oplock: true, State: state, Broken: h.broken}
	}
}

func again(r *vfs.OpenRequest) { r.Again = true }

// mustWait reports an operation that does not wait for a lease.
func mustWait(t *testing.T, err error) *vfs.LeaseWait {
	t.Helper()
	w := vfs.AsLeaseWait(err)
	if w == nil {
		t.Fatalf("the operation did not wait: %v", err)
	}
	return w
}

// mustBreak reports breaks other than want.
func mustBreak(t *testing.T, h *holder, want ...vfs.LeaseBreak) {
	t.Helper()
	if got := h.take(); !slices.Equal(got, want) {
		t.Fatalf("breaks %+v, want %+v", got, want)
	}
}

// A client alone with a file gets the state that it asks for, if that includes reads.
//
// Source: [MS-FSA 2.1.5.18]
func TestLeaseGrants(t *testing.T) {
	s := newSite(t)
	s.put("f")
	for asked, want := range map[vfs.LeaseState]vfs.LeaseState{
		0: 0, leaseR: leaseR, vfs.LeaseHandle: 0, vfs.LeaseWrite: 0, leaseRH: leaseRH, leaseRW: leaseRW,
		vfs.LeaseHandle | vfs.LeaseWrite: 0, leaseRWH: leaseRWH,
	} {
		o := s.mustOpen("f", new(holder).leased(1, asked))
		if got := o.Lease(); got.State != want || (got.Epoch == 1) != (want != 0) {
			t.Errorf("asked %b: %+v, want %b", asked, got, want)
		}
		o.Close()
	}
	if o := s.mustOpen("f", new(holder).oplocked(leaseRWH)); o.Lease().State != leaseRWH {
		t.Errorf("batch oplock: %+v", o.Lease())
	}
}

// A second open waits until the first client has given up its changes, and then shares the rest.
//
// Source: [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.5.22.2]
func TestOpenWaitsForLease(t *testing.T) {
	s := newSite(t)
	s.put("f")
	var a, b holder
	first := s.mustOpen("f", a.leased(1, leaseRWH))
	_, err := s.open("f", b.leased(2, leaseRWH))
	w := mustWait(t, err)
	mustBreak(t, &a, vfs.LeaseBreak{From: leaseRWH, To: leaseRH, Ack: true, Epoch: 2})
	_, err = s.open("f", b.leased(2, leaseRWH), again)
	mustWait(t, err)
	mustBreak(t, &a)
	if _, err := s.AcknowledgeLease(keyOf(1), leaseRWH); !errors.Is(err, ntstatus.RequestNotAccepted) {
		t.Errorf("acknowledged with more than offered: %v", err)
	}
	if _, err := s.AcknowledgeLease(keyOf(2), leaseRH); !errors.Is(err, ntstatus.ObjectNameNotFound) {
		t.Errorf("acknowledged with the key of another client: %v", err)
	}
	if state, err := s.AcknowledgeLease(keyOf(1), leaseRH); err != nil || state != leaseRH {
		t.Errorf("%b, %v", state, err)
	}
	if _, err := s.AcknowledgeLease(keyOf(1), leaseRH); !errors.Is(err, ntstatus.Unsuccessful) {
		t.Errorf("acknowledged twice: %v", err)
	}
	if err := w.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	second := s.mustOpen("f", b.leased(2, leaseRWH), again)
	if x, y := first.Lease().State, second.Lease().State; x != leaseRH || y != leaseRH {
		t.Errorf("%b and %b", x, y)
	}
}

// A write, a new size or a lock of one client ends the leases by which others may have the old data; the write does not wait.
// The writer's own lease stays.
//
// Source: [MS-FSA 2.1.4.12], [MS-FSA 2.1.5.4], [MS-FSA 2.1.5.8]
func TestChangeBreaksLeasesOfOthers(t *testing.T) {
	for name, change := range map[string]func(*vfs.Open) error{
		"write":        func(o *vfs.Open) error { _, err := o.WriteAt([]byte("x"), 0); return err },
		"write vector": func(o *vfs.Open) error { _, err := o.WriteVec([][]byte{{1}, {2}}, 0); return err },
		"size":         func(o *vfs.Open) error { return o.Truncate(1) },
		"lock":         func(o *vfs.Open) error { return o.TryLock(vfs.Lock{Range: vfs.Range{Len: 1}}) },
		"queued lock": func(o *vfs.Open) error {
			_, err := o.QueueLock(vfs.Lock{Range: vfs.Range{Len: 1}, Exclusive: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("f")
			var a, b, c holder
			reader := s.mustOpen("f", a.leased(1, leaseR))
			delayer := s.mustOpen("f", b.leased(2, leaseRH))
			writer := s.mustOpen("f", c.leased(3, leaseR))
			if err := writer.Acquire(); err != nil {
				t.Fatal(err)
			}
			defer writer.Release()
			if err := change(writer); err != nil {
				t.Fatal(err)
			}
			mustBreak(t, &a, vfs.LeaseBreak{From: leaseR, Epoch: 2})
			mustBreak(t, &b, vfs.LeaseBreak{From: leaseRH, Ack: true, Epoch: 2})
			mustBreak(t, &c)
			if r, k, w := reader.Lease(), delayer.Lease(), writer.Lease(); r.State != 0 || !k.Breaking || w.State != leaseR {
				t.Errorf("%+v, %+v, %+v", r, k, w)
			}
			if err := change(writer); err != nil && !errors.Is(err, ntstatus.LockNotGranted) {
				t.Fatal(err)
			}
			mustBreak(t, &b)
		})
	}
}

// A write breaks the oplock of level II of its own open, too. A batch oplock stays.
//
// Source: [MS-FSA 2.1.4.12]
func TestWriteBreaksItsOwnLevelII(t *testing.T) {
	s := newSite(t)
	s.put("f")
	for state, breaks := range map[vfs.LeaseState]int{leaseR: 1, leaseRW: 0, leaseRWH: 0} {
		var a holder
		o := s.mustOpen("f", a.oplocked(state))
		if err := o.Acquire(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := o.WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.take(); len(got) != breaks {
			t.Errorf("%b: %+v", state, got)
		}
		o.Release()
		o.Close()
	}
}

// The open that a share mode forbids waits for a close that a lease delays; so do a rename, a replacement and
// a delete.
//
// Source: [MS-FSA 2.1.5.1.2.2], [MS-FSA 2.1.5.15.11], [MS-FSA 2.1.5.15.3]
func TestDelayedCloseIsAwaited(t *testing.T) {
	for name, use := range map[string]func(s *site, other *vfs.Open) error{
		"open": func(s *site, _ *vfs.Open) error {
			_, err := s.open("d/f", func(r *vfs.OpenRequest) { r.ShareMode = 0 })
			return err
		},
		"delete on close":      func(s *site, _ *vfs.Open) error { _, err := s.open("d/f", options(vfs.DeleteOnClose)); return err },
		"rename":               func(_ *site, other *vfs.Open) error { return other.Rename("d/h", false) },
		"delete":               func(_ *site, other *vfs.Open) error { return other.SetDeleteOnClose(true) },
		"replacement":          func(s *site, _ *vfs.Open) error { return s.mustOpen("g").Rename("d/f", true) },
		"rename of the parent": func(s *site, _ *vfs.Open) error { return s.mustOpen("d").Rename("e", false) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("d/", "d/f", "g")
			var a holder
			s.mustOpen("d/f", a.leased(1, leaseRH))
			other := s.mustOpen("d/f")
			w := mustWait(t, use(s, other))
			mustBreak(t, &a, vfs.LeaseBreak{From: leaseRH, To: leaseR, Ack: true, Epoch: 2})
			if _, err := s.AcknowledgeLease(keyOf(1), leaseR); err != nil {
				t.Fatal(err)
			}
			if err := w.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := use(s, other); vfs.AsLeaseWait(err) != nil {
				t.Error(err)
			}
			mustBreak(t, &a)
		})
	}
}

// A break that another operation extends goes on in steps.
//
// Source: [MS-SMB2 3.3.5.22.2]
func TestBreakGoesOn(t *testing.T) {
	s := newSite(t)
	s.put("f")
	var a holder
	first := s.mustOpen("f", a.leased(1, leaseRWH))
	_, err := s.open("f")
	mustWait(t, err)
	_, err = s.open("f", disposition(vfs.Overwrite))
	mustWait(t, err)
	mustBreak(t, &a, vfs.LeaseBreak{From: leaseRWH, To: leaseRH, Ack: true, Epoch: 2})
	for _, step := range []struct {
		ack  vfs.LeaseState
		next []vfs.LeaseBreak
	}{
		{leaseRH, []vfs.LeaseBreak{{From: leaseRH, To: leaseR, Ack: true, Epoch: 2}}},
		{leaseR, []vfs.LeaseBreak{{From: leaseR, Epoch: 2}}},
	} {
		if _, err := s.AcknowledgeLease(keyOf(1), step.ack); err != nil {
			t.Fatal(err)
		}
		mustBreak(t, &a, step.next...)
	}
	if got := first.Lease(); got.State != 0 || got.Breaking {
		t.Errorf("%+v", got)
	}
	s.mustOpen("f", disposition(vfs.Overwrite), again)
}

// A client that does not answer, or that no break reaches, loses its lease and nothing else.
//
// Source: [MS-SMB2 3.3.6.5], [MS-SMB2 3.3.4.7]
func TestSilentHolderLosesItsLease(t *testing.T) {
	s := newSite(t, func(c *vfs.Config) { c.LeaseTimeout = time.Millisecond })
	s.put("f", "g")
	var a, away holder
	away.away = true
	for path, h := range map[string]*holder{"f": &a, "g": &away} {
		first := s.mustOpen(path, h.leased(path[0], leaseRWH))
		_, err := s.open(path)
		if err := mustWait(t, err).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.mustOpen(path, again)
		if got := first.Lease(); got.State != 0 || got.Breaking {
			t.Errorf("%s: %+v", path, got)
		}
		if _, err := s.AcknowledgeLease(keyOf(path[0]), 0); !errors.Is(err, ntstatus.Unsuccessful) {
			t.Errorf("%s: acknowledged too late: %v", path, err)
		}
		if _, err := first.Stat(); err != nil {
			t.Error(err)
		}
	}
	if got := s.Stats(); got.LeasesRevoked != 2 || got.LeaseBreaks != 2 || got.Leases != 2 {
		t.Errorf("%+v", got)
	}
}

// The end of the context ends a wait, and leaves the lease.
func TestLeaseWaitEndsWithContext(t *testing.T) {
	s := newSite(t)
	s.put("f")
	var a holder
	first := s.mustOpen("f", a.leased(1, leaseRWH))
	_, err := s.open("f")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mustWait(t, err).Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := first.Lease(); got.State != leaseRWH || !got.Breaking {
		t.Errorf("%+v", got)
	}
	if !errors.Is(err, ntstatus.SharingViolation) {
		t.Errorf("status of a caller that does not wait: %v", err)
	}
}

// Opens with the same key share a lease, which lasts until the last of them is closed, and can grow. The key
// is bound to its file.
//
// Source: [MS-SMB2 3.3.5.9.8]
func TestOpensShareALease(t *testing.T) {
	s := newSite(t)
	s.put("f", "g")
	var a holder
	first := s.mustOpen("f", a.leased(1, leaseR))
	second := s.mustOpen("f", a.leased(1, leaseRWH))
	if got := first.Lease(); got.State != leaseRWH || got.Epoch != 2 {
		t.Errorf("%+v", got)
	}
	for _, d := range []vfs.Disposition{vfs.OpenExisting, vfs.Create} {
		path := map[vfs.Disposition]string{vfs.OpenExisting: "g", vfs.Create: "new"}[d]
		if _, err := s.open(path, a.leased(1, leaseR), disposition(d)); !errors.Is(err, ntstatus.InvalidParameter) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if s.exists("new") {
		t.Error("a refused open has made a file")
	}
	first.Close()
	if got := s.Stats().Leases; got != 1 {
		t.Errorf("%d leases", got)
	}
	second.Close()
	if got := s.Stats().Leases; got != 0 {
		t.Errorf("%d leases after the last close", got)
	}
	s.mustOpen("g", a.leased(1, leaseR))
	mustBreak(t, &a)
}

// The close of the holder ends a wait.
//
// Source: [MS-SMB2 3.3.5.10]
func TestCloseEndsLeaseWait(t *testing.T) {
	s := newSite(t)
	s.put("f")
	var a holder
	first := s.mustOpen("f", a.oplocked(leaseRWH))
	_, err := s.open("f")
	w := mustWait(t, err)
	first.Close()
	if err := w.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if o := s.mustOpen("f", a.oplocked(leaseRWH)); o.Lease().State != leaseRWH {
		t.Errorf("%+v", o.Lease())
	}
}

// An open that reads attributes only breaks nothing, unless it empties the file.
//
// Source: [MS-SMB2 3.3.5.9]
func TestStatOpenBreaksNothing(t *testing.T) {
	s := newSite(t)
	s.put("f")
	var a holder
	s.mustOpen("f", a.leased(1, leaseRWH))
	s.mustOpen("f", access(vfs.ReadAttributes|vfs.Synchronize|vfs.ReadControl))
	mustBreak(t, &a)
	_, err := s.open("f", access(vfs.ReadAttributes), disposition(vfs.Overwrite))
	mustWait(t, err)
	mustBreak(t, &a, vfs.LeaseBreak{From: leaseRWH, Ack: true, Epoch: 2})
}

// A lease that is granted while a write is in flight may have the data before it: the write breaks it before
// it returns.
//
// Source: [MS-FSA 2.1.4.12]
func TestLeaseGrantedDuringAWrite(t *testing.T) {
	h := &hooked{}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("f")
	var a holder
	writer := s.mustOpen("f")
	if err := writer.Acquire(); err != nil {
		t.Fatal(err)
	}
	defer writer.Release()
	h.wrote = func() { s.mustOpen("f", a.leased(1, leaseR)) }
	if _, err := writer.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	mustBreak(t, &a, vfs.LeaseBreak{From: leaseR, Epoch: 2})
	if _, err := writer.WriteVec([][]byte{{1}}, 0); err != nil {
		t.Fatal(err)
	}
	mustBreak(t, &a, vfs.LeaseBreak{From: leaseR, Epoch: 4})
}
