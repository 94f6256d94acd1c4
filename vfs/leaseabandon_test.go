package vfs_test

import (
	"errors"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// An orphan lasts as long as its lease has LeaseHandle. An open that breaks that waits for its close, not for its
// client.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.7.1]
func TestAbandonedOpenMakesWay(t *testing.T) {
	s := newSite(t)
	s.put("f")
	for _, asked := range []func(h *holder) func(*vfs.OpenRequest){
		func(h *holder) func(*vfs.OpenRequest) { return h.leased(1, leaseRWH) },
		func(h *holder) func(*vfs.OpenRequest) { return h.oplocked(leaseRWH) },
	} {
		var a, b holder
		orphan := s.mustOpen("f", asked(&a))
		lost := 0
		if !orphan.Ownership().Abandon(func() { lost++ }) {
			t.Fatal("an open with LeaseHandle is not kept")
		}
		_, err := s.open("f", b.leased(2, leaseRWH))
		w := mustWait(t, err)
		mustBreak(t, &a)
		if lost != 1 || orphan.Ownership().Return() {
			t.Errorf("called %d times, or the orphan returned", lost)
		}
		if err := orphan.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if o := s.mustOpen("f", b.leased(2, leaseRWH), again); o.Lease().State != leaseRWH || lost != 1 {
			t.Errorf("%+v, called %d times", o.Lease(), lost)
		} else {
			o.Close()
		}
	}
}

// An open without LeaseHandle, or whose lease is being broken, is no such orphan. After its return it has its
// breaks again.
//
// Source: [MS-SMB2 3.3.7.1]
func TestAbandonNeedsHandle(t *testing.T) {
	s := newSite(t)
	s.put("f")
	never := func() { t.Error("an orphan has lost its lease") }
	for _, asked := range []vfs.LeaseState{0, leaseR, leaseRW} {
		o := s.mustOpen("f", new(holder).leased(1, asked))
		if o.Ownership().Abandon(never) {
			t.Errorf("kept with the lease %b", asked)
		}
		o.Close()
	}
	var a holder
	o := s.mustOpen("f", a.leased(1, leaseRWH))
	if !o.Ownership().Abandon(never) || !o.Ownership().Return() {
		t.Fatal("not kept, or not returned")
	}
	_, err := s.open("f")
	mustWait(t, err)
	mustBreak(t, &a, vfs.LeaseBreak{From: leaseRWH, To: leaseRH, Ack: true, Epoch: 2})
	if o.Ownership().Abandon(never) {
		t.Error("kept while its lease is being broken")
	}
}

// Two opens of one lease, one of them an orphan: the break reaches the client by the other, and the orphan lasts
// until the client gives up LeaseHandle.
//
// Source: [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.5.22.2]
func TestAbandonedOpenOfSharedLease(t *testing.T) {
	s := newSite(t)
	s.put("f")
	for _, keep := range []vfs.LeaseState{leaseRH, leaseR} {
		var a holder
		first, orphan := s.mustOpen("f", a.leased(1, leaseRWH)), s.mustOpen("f", a.leased(1, leaseRWH))
		lost := 0
		if !orphan.Ownership().Abandon(func() { lost++ }) {
			t.Fatal("not kept")
		}
		_, err := s.open("f")
		mustWait(t, err)
		if got := a.take(); len(got) != 1 || lost != 0 {
			t.Fatalf("breaks %+v, called %d times", got, lost)
		}
		if _, err := s.AcknowledgeLease(keyOf(1), keep); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 1}[keep == leaseR]; lost != want {
			t.Errorf("kept %b: called %d times, want %d", keep, lost, want)
		}
		for _, o := range []*vfs.Open{orphan, first} {
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The client of a break that is in progress closes its open without an answer: the orphan of the same lease makes way.
//
// Source: [MS-SMB2 3.3.4.7]
func TestAbandonedOpenAfterLastClient(t *testing.T) {
	s := newSite(t)
	s.put("f")
	var a holder
	first, orphan := s.mustOpen("f", a.leased(1, leaseRWH)), s.mustOpen("f", a.leased(1, leaseRWH))
	lost := 0
	if !orphan.Ownership().Abandon(func() { lost++ }) {
		t.Fatal("not kept")
	}
	_, err := s.open("f")
	w := mustWait(t, err)
	first.Close()
	if lost != 1 {
		t.Fatalf("called %d times", lost)
	}
	orphan.Close()
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mustOpen("f", again)
}

// The share mode of a persistent orphan beside one that makes way still applies.
//
// Source: [OP-56]
func TestOrphanThatMakesNoWay(t *testing.T) {
	s := newSite(t)
	s.put("f")
	var a holder
	none := func(r *vfs.OpenRequest) { r.ShareMode = 0 }
	o := s.mustOpen("f", none, a.leased(1, leaseRWH))
	o.RevokeLease()
	o.Ownership().SetOrphan(true)
	a.away = true
	_, err := s.open("f")
	if w := vfs.AsLeaseWait(err); w != nil {
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = s.open("f", again)
	}
	if !errors.Is(err, ntstatus.FileNotAvailable) {
		t.Error(err)
	}
}
