package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

func shared(off, n uint64) vfs.Lock {
	return vfs.Lock{Range: vfs.Range{Off: off, Len: n}}
}

func exclusive(off, n uint64) vfs.Lock {
	return vfs.Lock{Range: vfs.Range{Off: off, Len: n}, Exclusive: true}
}

// queue queues a lock that is not free.
func queue(t testing.TB, o *vfs.Open, l vfs.Lock) *vfs.LockWait {
	t.Helper()
	w, err := o.QueueLock(l)
	if w == nil {
		t.Fatalf("%v is free: %v", l, err)
	}
	return w
}

// Conflicts between the locks of two opens, and between the locks of one open.
//
// Source: [MS-FSA 2.1.4.10] [MS-FSA 2.1.5.8]
func TestConflictingLockIsRefused(t *testing.T) {
	s := newSite(t)
	s.put("f")
	for _, c := range []struct {
		held, want vfs.Lock
		// other and same: may another open have it, and the same one?
		other, same bool
	}{
		{shared(0, 10), shared(5, 10), true, true},
		{shared(0, 10), exclusive(5, 10), false, false},
		{exclusive(0, 10), shared(5, 10), false, true},
		{exclusive(0, 10), exclusive(5, 10), false, false},
		{exclusive(0, 10), exclusive(10, 10), true, true},
		{exclusive(10, 10), exclusive(0, 10), true, true},
		{exclusive(10, 1), exclusive(0, 100), false, false},
		{exclusive(0, 100), exclusive(10, 1), false, false},
		// A place between two bytes.
		{exclusive(10, 0), exclusive(10, 0), true, true},
		{exclusive(10, 0), exclusive(9, 1), true, true},
		{exclusive(10, 0), exclusive(10, 1), true, true},
		{exclusive(10, 0), exclusive(9, 2), false, false},
		{exclusive(9, 2), exclusive(10, 0), false, false},
		{exclusive(9, 1), exclusive(10, 0), true, true},
		{exclusive(10, 2), exclusive(10, 0), true, true},
		{exclusive(9, 2), shared(10, 0), false, true},
		// As far as there can be bytes.
		{exclusive(math.MaxUint64, 1), exclusive(math.MaxUint64, 1), false, false},
		{exclusive(0, math.MaxUint64), exclusive(math.MaxUint64, 1), true, true},
		{exclusive(1, math.MaxUint64), exclusive(math.MaxUint64, 1), false, false},
		{exclusive(1, math.MaxUint64), exclusive(0, 1), true, true},
		{exclusive(math.MaxUint64, 0), exclusive(math.MaxUint64-1, 2), false, false},
		{exclusive(math.MaxUint64, 0), exclusive(math.MaxUint64, 1), true, true},
	} {
		t.Run(fmt.Sprintf("%v then %v", c.held, c.want), func(t *testing.T) {
			a, b := s.mustOpen("f"), s.mustOpen("f")
			defer closed(t, a, b)
			status := map[bool]ntstatus.Status{false: ntstatus.LockNotGranted, true: ntstatus.Success}
			wantStatus(t, "first", a.TryLock(c.held), ntstatus.Success)
			wantStatus(t, "another's", b.TryLock(c.want), status[c.other])
			if c.other {
				wantStatus(t, "unlock", b.Unlock(c.want.Range), ntstatus.Success)
			}
			wantStatus(t, "one's own", a.TryLock(c.want), status[c.same])
		})
	}
}

// Invalid locks and unlocks.
//
// Source: [MS-FSA 2.1.5.8] [MS-FSA 2.1.5.9]
func TestInvalidLockIsRefused(t *testing.T) {
	s := newSite(t)
	s.put("f", "d/")
	o, d := s.mustOpen("f"), s.mustOpen("d")
	blind := s.mustOpen("f", access(vfs.ReadAttributes|vfs.AppendData))
	for _, l := range []vfs.Lock{exclusive(math.MaxUint64, 2), exclusive(2, math.MaxUint64), exclusive(math.MaxUint64, math.MaxUint64)} {
		wantStatus(t, "lock behind the last byte", o.TryLock(l), ntstatus.InvalidLockRange)
		_, err := o.QueueLock(l)
		wantStatus(t, "wait behind the last byte", err, ntstatus.InvalidLockRange)
		wantStatus(t, "unlock behind the last byte", o.Unlock(l.Range), ntstatus.InvalidLockRange)
	}
	wantStatus(t, "a directory", d.TryLock(shared(0, 1)), ntstatus.InvalidParameter)
	wantStatus(t, "unlock a directory", d.Unlock(vfs.Range{Len: 1}), ntstatus.InvalidParameter)
	wantStatus(t, "without access", blind.TryLock(shared(0, 1)), ntstatus.AccessDenied)
	wantStatus(t, "nothing locked", o.Unlock(vfs.Range{Len: 1}), ntstatus.RangeNotLocked)
	wantStatus(t, "lock", o.TryLock(exclusive(0, 10)), ntstatus.Success)
	wantStatus(t, "part of it", o.Unlock(vfs.Range{Len: 5}), ntstatus.RangeNotLocked)
	other := s.mustOpen("f")
	wantStatus(t, "of another open", other.Unlock(vfs.Range{Len: 10}), ntstatus.RangeNotLocked)
	closed(t, o)
	wantStatus(t, "closed", o.TryLock(exclusive(0, 10)), ntstatus.FileClosed)
	wantStatus(t, "closed", o.Unlock(vfs.Range{Len: 10}), ntstatus.RangeNotLocked)
	closed(t, d, blind, other)
}

// Several locks at once are all taken or none.
//
// Source: [MS-SMB2 3.3.5.14.2]
func TestLocksAreTakenAllOrNone(t *testing.T) {
	s := newSite(t)
	s.put("f")
	a, b := s.mustOpen("f"), s.mustOpen("f")
	defer closed(t, a, b)
	wantStatus(t, "one in the way", a.TryLock(exclusive(100, 1)), ntstatus.Success)
	wantStatus(t, "array", b.TryLock(exclusive(0, 10), shared(0, 10), exclusive(90, 20)), ntstatus.LockNotGranted)
	wantStatus(t, "array with a bad one", b.TryLock(shared(0, 10), exclusive(20, 0), exclusive(5, math.MaxUint64)), ntstatus.InvalidLockRange)
	if n := s.Stats().Locks; n != 1 {
		t.Errorf("%d locks, want 1", n)
	}
	wantStatus(t, "released range", a.TryLock(exclusive(0, 90)), ntstatus.Success)
	wantStatus(t, "unlock", a.Unlock(vfs.Range{Off: 100, Len: 1}), ntstatus.Success)
	wantStatus(t, "array", b.TryLock(exclusive(90, 20), shared(90, 20)), ntstatus.Success)
	if n := s.Stats().Locks; n != 3 {
		t.Errorf("%d locks, want 3", n)
	}
	wantStatus(t, "array that meets itself", a.TryLock(exclusive(410, 5), shared(410, 5), shared(411, 1), exclusive(414, 1)), ntstatus.LockNotGranted)
	wantStatus(t, "array out of order", a.TryLock(shared(300, 1), exclusive(200, 10), exclusive(301, 0), shared(205, 100)), ntstatus.Success)
	wantStatus(t, "between", b.TryLock(exclusive(304, 1)), ntstatus.LockNotGranted)
	wantStatus(t, "before", b.TryLock(shared(209, 1)), ntstatus.LockNotGranted)
	wantStatus(t, "behind", b.TryLock(exclusive(305, 10)), ntstatus.Success)
	for _, l := range []vfs.Range{{Off: 205, Len: 100}, {Off: 200, Len: 10}, {Off: 301}, {Off: 300, Len: 1}} {
		wantStatus(t, "unlock one of the array", a.Unlock(l), ntstatus.Success)
	}
	wantStatus(t, "unlock", b.Unlock(vfs.Range{Off: 305, Len: 10}), ntstatus.Success)
	// The exclusive one goes first.
	wantStatus(t, "unlock", b.Unlock(vfs.Range{Off: 90, Len: 20}), ntstatus.Success)
	wantStatus(t, "shared", a.TryLock(shared(95, 1)), ntstatus.Success)
	wantStatus(t, "exclusive", a.TryLock(exclusive(96, 1)), ntstatus.LockNotGranted)
}

// Locks apply to the I/O of all opens.
//
// Source: [MS-FSA 2.1.5.3] [MS-FSA 2.1.5.4] [MS-FSA 2.1.4.10]
func TestLocksApplyToReadsAndWrites(t *testing.T) {
	s := newSite(t)
	if err := os.WriteFile(s.host("f"), make([]byte, 200), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := s.mustOpen("f"), s.mustOpen("f")
	appends := s.mustOpen("f", access(vfs.AppendData))
	defer closed(t, a, b, appends)
	wantStatus(t, "lock", a.TryLock(exclusive(100, 10), shared(50, 10), exclusive(20, 0)), ntstatus.Success)
	const ok, conflict = ntstatus.Success, ntstatus.FileLockConflict
	for _, c := range []struct {
		off, n int64
		// reading and writing, by a, which has the locks, and b.
		ar, aw, br, bw ntstatus.Status
	}{
		{0, 20, ok, ok, ok, ok},
		{19, 2, ok, ok, conflict, conflict},
		{20, 5, ok, ok, ok, ok},
		{40, 10, ok, ok, ok, ok},
		{40, 11, ok, conflict, ok, conflict},
		{59, 1, ok, conflict, ok, conflict},
		{60, 40, ok, ok, ok, ok},
		{55, 100, ok, conflict, conflict, conflict},
		{109, 1, ok, ok, conflict, conflict},
		{110, 1, ok, ok, ok, ok},
		{105, 0, ok, ok, ok, ok},
	} {
		p := make([]byte, c.n)
		for _, who := range []struct {
			name        string
			o           *vfs.Open
			read, write ntstatus.Status
		}{{"owner", a, c.ar, c.aw}, {"other", b, c.br, c.bw}} {
			held(t, who.o, func() {
				what := fmt.Sprintf("%s, %d bytes from %d", who.name, c.n, c.off)
				n, err := who.o.ReadAt(p, c.off)
				wantStatus(t, what+" read", err, who.read)
				if err != nil && n != 0 {
					t.Errorf("%s: %d bytes and %v", what, n, err)
				}
				_, ok, err := who.o.ReadCached(p, c.off)
				wantStatus(t, what+" read from the cache", err, who.read)
				if !ok && err != nil {
					t.Errorf("%s: a refusal is no reason to wait", what)
				}
				if got := who.o.MayRead(c.off, int(c.n)); got != (who.read == ntstatus.Success) {
					t.Errorf("%s: MayRead says %v", what, got)
				}
				_, err = who.o.WriteAt(p, c.off)
				wantStatus(t, what+" written", err, who.write)
			})
		}
	}
	// An append goes to the end of the file and ignores its offset.
	held(t, appends, func() {
		_, err := appends.WriteAt([]byte("x"), 105)
		wantStatus(t, "append", err, ok)
		wantStatus(t, "lock the end", a.TryLock(exclusive(201, 10)), ok)
		_, err = appends.WriteAt([]byte("x"), 0)
		wantStatus(t, "append to a locked range", err, conflict)
	})
	wantStatus(t, "unlock", a.Unlock(vfs.Range{Off: 100, Len: 10}), ok)
	held(t, b, func() {
		_, err := b.WriteAt([]byte("x"), 100)
		wantStatus(t, "write an unlocked range", err, ok)
	})
}

// An exclusive lock of another open counts wherever it is among those of the own one.
//
// Source: [MS-FSA 2.1.4.10]
func TestLockOfAnotherAmongOwnOnesCounts(t *testing.T) {
	s := newSite(t)
	s.put("f")
	a, b := s.mustOpen("f"), s.mustOpen("f")
	defer closed(t, a, b)
	wantStatus(t, "own", a.TryLock(exclusive(0, 2), exclusive(10, 2), exclusive(12, 2), exclusive(30, 2)), ntstatus.Success)
	wantStatus(t, "another", b.TryLock(exclusive(5, 2)), ntstatus.Success)
	for _, c := range []struct {
		off, n uint64
		want   ntstatus.Status
	}{
		{0, 5, ntstatus.Success}, {7, 30, ntstatus.Success}, {0, 40, ntstatus.LockNotGranted}, {6, 40, ntstatus.LockNotGranted},
		{0, 6, ntstatus.LockNotGranted}, {5, 1, ntstatus.LockNotGranted}, {6, 5, ntstatus.LockNotGranted},
	} {
		what := fmt.Sprintf("%d bytes from %d", c.n, c.off)
		wantStatus(t, what, a.TryLock(shared(c.off, c.n)), c.want)
		if may := a.MayRead(int64(c.off), int(c.n)); may != (c.want == ntstatus.Success) {
			t.Errorf("%s: MayRead says %v", what, may)
		}
	}
}

// Waiting locks are granted in order, if an unlocked range frees their range.
//
// Source: [MS-SMB2 3.3.5.14.2]
func TestLockWaitsAreGrantedInOrder(t *testing.T) {
	s := newSite(t)
	s.put("f")
	a, b, c := s.mustOpen("f"), s.mustOpen("f"), s.mustOpen("f")
	ctx := t.Context()
	wantStatus(t, "lock", a.TryLock(exclusive(0, 10), exclusive(20, 10)), ntstatus.Success)
	if w, err := b.QueueLock(shared(10, 10)); w != nil || err != nil {
		t.Fatalf("a free range is waited for: %v", err)
	}
	first, second, other := queue(t, b, shared(5, 1)), queue(t, c, shared(0, 10)), queue(t, b, exclusive(20, 1))
	late := queue(t, c, exclusive(5, 1))
	wantStatus(t, "unlock", a.Unlock(vfs.Range{Len: 10}), ntstatus.Success)
	wantStatus(t, "first", first.Wait(ctx), ntstatus.Success)
	wantStatus(t, "second", second.Wait(ctx), ntstatus.Success)
	// The other two still wait.
	gone, cancel := context.WithCancelCause(ctx)
	cause := errors.New("enough")
	cancel(cause)
	if err := late.Wait(gone); !errors.Is(err, cause) {
		t.Errorf("wait that was given up: %v", err)
	}
	wantStatus(t, "unlock", b.Unlock(vfs.Range{Off: 5, Len: 1}), ntstatus.Success)
	wantStatus(t, "unlock", c.Unlock(vfs.Range{Len: 10}), ntstatus.Success)
	wantStatus(t, "abandoned range is free", a.TryLock(exclusive(5, 1)), ntstatus.Success)
	closed(t, a)
	wantStatus(t, "the last", other.Wait(ctx), ntstatus.Success)
	// A lock that is granted before its wait is abandoned is held.
	wantStatus(t, "unlock", b.Unlock(vfs.Range{Off: 10, Len: 10}), ntstatus.Success)
	wantStatus(t, "lock", b.TryLock(exclusive(0, 1)), ntstatus.Success)
	w := queue(t, c, exclusive(0, 1))
	wantStatus(t, "unlock", b.Unlock(vfs.Range{Len: 1}), ntstatus.Success)
	wantStatus(t, "granted", w.Wait(gone), ntstatus.Success)
	wantStatus(t, "and held", b.TryLock(exclusive(0, 1)), ntstatus.LockNotGranted)
	closed(t, b, c)
	if st := s.Stats(); st.Locks != 0 || st.WaitingLocks != 0 {
		t.Errorf("%d locks, %d waiting, are left", st.Locks, st.WaitingLocks)
	}
}

// The ranges of one unlock are released together, so the oldest request that waits for several of them gets them. Only
// the ranges before one without a lock are released.
//
// Source: [MS-SMB2 3.3.5.14.1]
func TestRangesOfAnUnlockAreReleasedTogether(t *testing.T) {
	s := newSite(t)
	s.put("f")
	a, b, c := s.mustOpen("f"), s.mustOpen("f"), s.mustOpen("f")
	defer closed(t, a, b, c)
	wantStatus(t, "lock", a.TryLock(exclusive(0, 10), exclusive(10, 10), shared(40, 1), shared(40, 1)), ntstatus.Success)
	whole, part := queue(t, b, exclusive(0, 20)), queue(t, c, exclusive(0, 10))
	wantStatus(t, "unlock", a.Unlock(vfs.Range{Off: 0, Len: 10}, vfs.Range{Off: 10, Len: 10}), ntstatus.Success)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	wantStatus(t, "the oldest request", whole.Wait(now), ntstatus.Success)
	if err := part.Wait(now); !errors.Is(err, context.Canceled) {
		t.Errorf("the later request: %v", err)
	}
	at := vfs.Range{Off: 40, Len: 1}
	wantStatus(t, "one too many", a.Unlock(at, at, at), ntstatus.RangeNotLocked)
	wantStatus(t, "both are free", b.TryLock(exclusive(40, 1)), ntstatus.Success)
	wantStatus(t, "lock", a.TryLock(shared(50, 1), shared(60, 1)), ntstatus.Success)
	wantStatus(t, "a missing one", a.Unlock(vfs.Range{Off: 50, Len: 1}, vfs.Range{Off: 55, Len: 1}, vfs.Range{Off: 60, Len: 1}), ntstatus.RangeNotLocked)
	wantStatus(t, "the range before it", b.TryLock(exclusive(50, 1)), ntstatus.Success)
	wantStatus(t, "the range behind it", b.TryLock(exclusive(60, 1)), ntstatus.LockNotGranted)
}

// A close ends the waits of the open at once, and releases its locks when its I/O has ended.
//
// Source: [MS-SMB2 3.3.5.10] [OP-58b]
func TestCloseEndsWaitsAndReleasesLocks(t *testing.T) {
	s := newSite(t, patient)
	s.put("f")
	a, b := s.mustOpen("f", owner("bob")), s.mustOpen("f")
	wantStatus(t, "lock", a.TryLock(exclusive(0, 10)), ntstatus.Success)
	wantStatus(t, "lock", b.TryLock(exclusive(20, 10)), ntstatus.Success)
	mine, others := queue(t, a, exclusive(20, 10)), queue(t, b, exclusive(0, 10))
	if err := a.Acquire(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.CloseOwner("bob")
	}()
	wantStatus(t, "wait of a closed open", mine.Wait(t.Context()), ntstatus.RangeNotLocked)
	wantStatus(t, "lock while I/O is in flight", b.TryLock(exclusive(0, 10)), ntstatus.LockNotGranted)
	a.Release()
	wantStatus(t, "wait of another", others.Wait(t.Context()), ntstatus.Success)
	<-over
	closed(t, b)
}

// Locks that wait for those of a closed open are granted in the order of arrival, wherever the
// locks were.
//
// Source: [MS-SMB2 3.3.5.14.2]
func TestCloseGrantsWaitingLocksInOrder(t *testing.T) {
	s := newSite(t)
	s.put("f")
	a, b, c := s.mustOpen("f"), s.mustOpen("f"), s.mustOpen("f")
	last := uint64(math.MaxUint64)
	wantStatus(t, "lock", a.TryLock(exclusive(0, 10), exclusive(20, 10), exclusive(last, 1)), ntstatus.Success)
	first, end := queue(t, b, exclusive(20, 10)), queue(t, b, exclusive(last, 1))
	second := queue(t, c, exclusive(5, 20))
	closed(t, a)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	wantStatus(t, "first", first.Wait(now), ntstatus.Success)
	wantStatus(t, "the last byte", end.Wait(now), ntstatus.Success)
	if err := second.Wait(now); !errors.Is(err, context.Canceled) {
		t.Errorf("the later lock: %v", err)
	}
	closed(t, b, c)
}

// Locks are bounded: for an open, a file, a user, and in all.
func TestLocksAreBounded(t *testing.T) {
	s := newSite(t, func(c *vfs.Config) { c.MaxLocks, c.MaxFileLocks, c.MaxOpenLocks = 20, 12, 8 })
	s.put("f", "g")
	user := func(name string) func(*vfs.OpenRequest) {
		return func(r *vfs.OpenRequest) { r.User = name }
	}
	base := uint64(0) // of the ranges of each flood
	flood := func(o *vfs.Open) (n int) {
		t.Helper()
		for base += 1000; ; {
			err := o.TryLock(exclusive(base+uint64(n), 1))
			if err != nil {
				wantStatus(t, "flood", err, ntstatus.InsufficientResources)
				_, err := o.QueueLock(exclusive(0, 1))
				wantStatus(t, "wait in a flood", err, ntstatus.InsufficientResources)
				return n
			}
			n++
		}
	}
	a, b := s.mustOpen("f", user("alice")), s.mustOpen("f", user("alice"))
	if n := flood(a); n != 8 {
		t.Errorf("%d locks of an open", n)
	}
	if n := flood(b); n != 4 {
		t.Errorf("%d more locks of a file", n)
	}
	c, d := s.mustOpen("g", user("alice")), s.mustOpen("g", user("bob"))
	if n := flood(c); n != 3 {
		t.Errorf("%d more locks of a user", n)
	}
	if n := flood(d); n != 5 {
		t.Errorf("%d more locks in all", n)
	}
	wantStatus(t, "array", d.TryLock(shared(1, 1), shared(2, 1)), ntstatus.InsufficientResources)
	closed(t, a)
	wantStatus(t, "array", d.TryLock(shared(1, 1), shared(2, 1)), ntstatus.Success)
	// Waiting locks count.
	w := queue(t, d, exclusive(1, 1))
	_, err := d.QueueLock(exclusive(1, 1))
	wantStatus(t, "another wait", err, ntstatus.InsufficientResources)
	if st := s.Stats(); st.Locks != 4+3+5+3-1 || st.MaxLocks != 20 || st.WaitingLocks != 1 || st.LockWaits != 1 {
		t.Errorf("%+v", st)
	}
	closed(t, b, c, d)
	wantStatus(t, "wait", w.Wait(t.Context()), ntstatus.RangeNotLocked)
	if st := s.Stats(); st.Locks != 0 || st.WaitingLocks != 0 {
		t.Errorf("%+v", st)
	}
}
