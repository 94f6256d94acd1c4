package vfs_test

import (
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/vfs"
)

// defaultRevokeTimeout is the default of vfs.Config.RevokeTimeout.
const defaultRevokeTimeout = 5 * time.Second

// Source: [OP-56] [MS-SMB2 2.2.32.3]
func TestResumeKeyFindsOwnOpenOnly(t *testing.T) {
	s := newSite(t)
	s.put("file")
	a, b := s.mustOpen("file"), s.mustOpen("file", owner("bob"))
	nobody := s.mustOpen("file", owner(nil))
	if a.ResumeKey() == b.ResumeKey() || a.ResumeKey() == [24]byte{} {
		t.Error("keys are not unique")
	}
	if got, err := s.ByResumeKey(a.ResumeKey(), "alice"); got != a || err != nil {
		t.Errorf("own key: %v, %v", got, err)
	}
	flipped := a.ResumeKey()
	flipped[23] ^= 1
	for what, f := range map[string]func() (*vfs.Open, error){
		"of another owner": func() (*vfs.Open, error) { return s.ByResumeKey(b.ResumeKey(), "alice") },
		"unknown":          func() (*vfs.Open, error) { return s.ByResumeKey(flipped, "alice") },
		"zero":             func() (*vfs.Open, error) { return s.ByResumeKey([24]byte{}, "alice") },
		"nobody's":         func() (*vfs.Open, error) { return s.ByResumeKey(nobody.ResumeKey(), nil) },
	} {
		o, err := f()
		wantStatus(t, what, err, ntstatus.ObjectNameNotFound)
		if o != nil {
			t.Errorf("%s: got an open", what)
		}
	}
	closed(t, a)
	_, err := s.ByResumeKey(a.ResumeKey(), "alice")
	wantStatus(t, "closed", err, ntstatus.ObjectNameNotFound)
}

// A close refuses new I/O, then runs the hooks, then waits, then deletes.
//
// Source: [OP-58b]
func TestCloseRunsItsStepsInOrder(t *testing.T) {
	s := newSite(t, patient)
	s.put("file")
	o := s.mustOpen("file", options(vfs.DeleteOnClose))
	if err := o.Acquire(); err != nil {
		t.Fatal(err)
	}
	var order []string
	hooked := make(chan struct{})
	o.OnRevoke(func() {
		order = append(order, "first")
		wantStatus(t, "acquire in the hook", o.Acquire(), ntstatus.FileClosed)
		_, err := s.ByResumeKey(o.ResumeKey(), "alice")
		wantStatus(t, "resume in the hook", err, ntstatus.ObjectNameNotFound)
	})
	stop := o.OnRevoke(func() { order = append(order, "taken back") })
	stop()
	stop()
	o.OnRevoke(func() {
		order = append(order, "second")
		close(hooked)
	})
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		closed(t, o)
		over.Store(true)
	}()
	<-hooked
	if n, err := o.ReadAt(make([]byte, 7), 0); n != 7 || err != nil {
		t.Errorf("I/O in flight got %d, %v", n, err)
	}
	if over.Load() || !s.exists("file") {
		t.Error("closed or deleted under I/O in flight")
	}
	o.Release()
	<-done
	if want := []string{"first", "second"}; !reflect.DeepEqual(order, want) {
		t.Errorf("hooks ran as %v", order)
	}
	if s.exists("file") {
		t.Error("not deleted")
	}
	late := false
	o.OnRevoke(func() { late = true })
	if !late {
		t.Error("a hook on a closed open did not run")
	}
	closed(t, o)
}

// If I/O does not end within the time limit the stall hooks run; a close continues when the cut
// connection ends the I/O.
//
// Source: [OP-58b]
func TestCloseRunsStallHooksAfterTimeout(t *testing.T) {
	s := newSite(t)
	s.put("file")
	synctest.Test(t, func(t *testing.T) {
		o := s.mustOpen("file")
		held(t, o, func() {})
		if err := o.Acquire(); err != nil {
			t.Fatal(err)
		}
		o.OnStall(o.Release)
		start := time.Now()
		closed(t, o)
		if took := time.Since(start); took != defaultRevokeTimeout {
			t.Errorf("took %v, want %v", took, defaultRevokeTimeout)
		}
	})
}

// If the I/O does not end after the stall hooks either, the close finishes, and the descriptor
// stays open for the I/O.
//
// Source: [OP-58b]
func TestCloseLeavesStalledDescriptorOpen(t *testing.T) {
	s := newSite(t)
	s.put("a", "b")
	synctest.Test(t, func(t *testing.T) {
		stuck, alsoStuck := s.mustOpen("a", options(vfs.DeleteOnClose)), s.mustOpen("b")
		for _, o := range []*vfs.Open{stuck, alsoStuck} {
			if err := o.Acquire(); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		s.CloseOwner("alice")
		if took := time.Since(start); took != 2*defaultRevokeTimeout {
			t.Errorf("both together took %v, want %v", took, 2*defaultRevokeTimeout)
		}
		if st := s.Stats(); st.Stalled != 2 || st.Opens != 0 {
			t.Errorf("%+v", st)
		}
		if s.exists("a") {
			t.Error("not deleted")
		}
		p := make([]byte, 7)
		if n, err := stuck.ReadAt(p, 0); n != 7 || err != nil {
			t.Errorf("read of a descriptor that is still held: %d, %v", n, err)
		}
		wantStatus(t, "acquire", stuck.Acquire(), ntstatus.FileClosed)
		stuck.Release()
		alsoStuck.Release()
		if st := s.Stats(); st.Stalled != 0 {
			t.Errorf("%+v after the last release", st)
		}
		_, err := stuck.ReadAt(p, 0)
		wantStatus(t, "read without a reference", err, ntstatus.FileClosed)
	})
}

// An open whose I/O does not end delays no open that is closed with it.
//
// Source: [OP-58b]
func TestStalledOpenDelaysNoOther(t *testing.T) {
	s := newSite(t)
	s.put("a", "b")
	synctest.Test(t, func(t *testing.T) {
		stuck, idle, other := s.mustOpen("a"), s.mustOpen("b"), s.mustOpen("b", owner("bob"))
		if err := stuck.Acquire(); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, "lock", idle.TryLock(exclusive(0, 10)), ntstatus.Success)
		w := queue(t, other, exclusive(0, 10))
		start := time.Now()
		all := make(chan struct{})
		go func() {
			defer close(all)
			s.CloseAll(stuck, idle)
		}()
		wantStatus(t, "lock of a closed open", w.Wait(t.Context()), ntstatus.Success)
		if took := time.Since(start); took != 0 {
			t.Errorf("another's lock is held for %v", took)
		}
		closed(t, idle)
		if took := time.Since(start); took != 0 {
			t.Errorf("another is open for %v", took)
		}
		stuck.Release()
		<-all
		closed(t, other)
	})
}

func TestCloseOwnerClosesAllItsOpens(t *testing.T) {
	s := newSite(t)
	s.put("file")
	a1, a2, b := s.mustOpen("file"), s.mustOpen("file"), s.mustOpen("file", owner("bob"))
	s.CloseOwner("alice")
	s.CloseOwner("alice")
	s.CloseOwner("nobody")
	for _, o := range []*vfs.Open{a1, a2} {
		wantStatus(t, "acquire", o.Acquire(), ntstatus.FileClosed)
		_, err := o.Stat()
		wantStatus(t, "stat", err, ntstatus.FileClosed)
	}
	held(t, b, func() {})
	if n := s.Stats().Opens; n != 1 {
		t.Errorf("%d opens", n)
	}
}

func TestFSCloseClosesAllOpens(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file", options(vfs.DeleteOnClose))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.exists("file") {
		t.Error("not deleted")
	}
	wantStatus(t, "acquire", o.Acquire(), ntstatus.FileClosed)
	if _, err := s.open("file"); err == nil {
		t.Error("opened after Close")
	}
}

// I/O, closes, hooks and a logoff run concurrently. Run with -race.
//
// Source: [OP-58b]
func TestConcurrentCloseRunsHooksOnce(t *testing.T) {
	s := newSite(t)
	s.put("file")
	for range 20 {
		var wg sync.WaitGroup
		var revoked atomic.Int32
		for range 4 {
			o := s.mustOpen("file")
			o.OnRevoke(func() { revoked.Add(1) })
			for range 2 {
				wg.Go(func() {
					p := make([]byte, 7)
					for o.Acquire() == nil {
						if n, err := o.ReadAt(p, 0); n != len(p) || err != nil {
							t.Errorf("read under a reference: %d, %v", n, err)
						}
						o.Release()
					}
				})
				wg.Go(func() { closed(t, o) })
			}
		}
		wg.Go(func() { s.CloseOwner("alice") })
		wg.Wait()
		if revoked.Load() != 4 {
			t.Fatalf("%d of 4 hooks ran", revoked.Load())
		}
	}
}

func TestReleaseWithoutAcquirePanics(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file")
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		if err := o.Acquire(); err != nil {
			t.Error(err)
		}
	}()
	o.Release()
}

// A file that was deleted on disk is not found under its name again.
func TestFileDeletedOnDiskIsNotFound(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file")
	if err := os.Remove(s.host("file")); err != nil {
		skip.Test(t, "file system that cannot", err)
	}
	_, err := s.open("file")
	wantStatus(t, "open", err, ntstatus.ObjectNameNotFound)
	closed(t, o)
}
