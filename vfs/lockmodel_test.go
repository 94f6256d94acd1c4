package vfs_test

import (
	"context"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/test/leakcheck"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// lockModel is the simplest model of locks: a list of those held, and a list of those waited
// for.
type lockModel struct {
	s       *vfs.FS
	opens   []*vfs.Open
	held    []modelLock
	waiting []modelWait
}

type modelLock struct {
	o *vfs.Open
	l vfs.Lock
}

type modelWait struct {
	modelLock
	w *vfs.LockWait
}

// Random locks, unlocks, waits, reads, writes and closes of one file by several opens.
//
// Source: [MS-FSA 2.1.4.10] [MS-FSA 2.1.5.8] [MS-FSA 2.1.5.9]
func TestLocksMatchModel(t *testing.T) {
	leakcheck.Check(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 64), 0o600); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		d, err := posix.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "x", Backend: d}}})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m := &lockModel{s: f}
		m.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"open": m.open, "close": m.close, "try": m.try, "queue": m.queue, "unlock": m.unlock,
			"give up": m.giveUp, "io": m.io, "": m.agree,
		})
	})
}

func (m *lockModel) open(t *rapid.T) {
	if len(m.opens) == 4 {
		t.Skip("enough")
	}
	o, _, err := m.s.Open(vfs.OpenRequest{
		Share: "x", Path: "f", Access: vfs.ReadData | vfs.WriteData, ShareMode: vfs.ShareAll, Disposition: vfs.OpenExisting, Owner: "alice",
	})
	if err != nil {
		t.Fatal(err)
	}
	m.opens = append(m.opens, o)
}

func (m *lockModel) some(t *rapid.T) *vfs.Open { return rapid.SampledFrom(m.opens).Draw(t, "open") }

// modelRange draws ranges that meet often, and some at the end of all bytes.
func modelRange(t *rapid.T) vfs.Range {
	r := vfs.Range{Off: rapid.Uint64Range(0, 12).Draw(t, "off"), Len: rapid.Uint64Range(0, 6).Draw(t, "len")}
	if rapid.IntRange(0, 5).Draw(t, "end") == 0 {
		r.Off = -r.Off - 1
	}
	return r
}

func modelLocks(t *rapid.T) vfs.Lock {
	return vfs.Lock{Range: modelRange(t), Exclusive: rapid.Bool().Draw(t, "exclusive")}
}

// ends are the beginning and the end of a range, as numbers of any size.
func ends(r vfs.Range) (lo, hi *big.Int) {
	lo = new(big.Int).SetUint64(r.Off)
	return lo, new(big.Int).Add(lo, new(big.Int).SetUint64(r.Len))
}

// meet reports whether two ranges overlap: a range is the interval between its two ends, and a
// range without bytes is a point.
func meet(a, b vfs.Range) bool {
	alo, ahi := ends(a)
	blo, bhi := ends(b)
	return (a.Len > 0 || b.Len > 0) && alo.Cmp(bhi) < 0 && blo.Cmp(ahi) < 0
}

func tooFar(r vfs.Range) bool {
	_, hi := ends(r)
	return r.Len > 0 && hi.BitLen() > 64 && hi.Cmp(new(big.Int).Lsh(big.NewInt(1), 64)) > 0
}

// free says whether o may have l.
func (m *lockModel) free(o *vfs.Open, l vfs.Lock) bool {
	return !slices.ContainsFunc(m.held, func(h modelLock) bool {
		return meet(h.l.Range, l.Range) && (l.Exclusive || h.l.Exclusive && h.o != o)
	})
}

func (m *lockModel) try(t *rapid.T) {
	o := m.some(t)
	before := len(m.held)
	want := ntstatus.Success
	var locks []vfs.Lock
	for range rapid.IntRange(1, 7).Draw(t, "locks") {
		l := modelLocks(t)
		locks = append(locks, l)
		switch {
		case want != ntstatus.Success:
		case tooFar(l.Range):
			want = ntstatus.InvalidLockRange
		case !m.free(o, l):
			want = ntstatus.LockNotGranted
		default:
			m.held = append(m.held, modelLock{o, l})
		}
	}
	if want != ntstatus.Success {
		m.held = m.held[:before]
	}
	wantStatusRapid(t, "lock", o.TryLock(locks...), want)
}

func (m *lockModel) queue(t *rapid.T) {
	o, l := m.some(t), modelLocks(t)
	w, err := o.QueueLock(l)
	switch {
	case tooFar(l.Range):
		wantStatusRapid(t, "queue", err, ntstatus.InvalidLockRange)
	case err != nil || (w == nil) != m.free(o, l):
		t.Fatalf("queue %v: %v, %v", l, w, err)
	case w == nil:
		m.held = append(m.held, modelLock{o, l})
	default:
		m.waiting = append(m.waiting, modelWait{modelLock{o, l}, w})
	}
}

func (m *lockModel) unlock(t *rapid.T) {
	o := m.some(t)
	var ranges []vfs.Range
	want := ntstatus.Success
	for range rapid.IntRange(1, 5).Draw(t, "ranges") {
		r := modelRange(t)
		if len(m.held) > 0 && rapid.IntRange(0, 3).Draw(t, "one that is held") > 0 {
			h := rapid.SampledFrom(m.held).Draw(t, "lock")
			r = h.l.Range
			if rapid.Bool().Draw(t, "by its owner") {
				o = h.o
			}
		}
		ranges = append(ranges, r)
	}
	for _, r := range ranges {
		if want = m.release(o, r); want != ntstatus.Success {
			break
		}
	}
	wantStatusRapid(t, "unlock", o.Unlock(ranges...), want)
	m.grant(t)
}

// release removes a lock of an open with exactly that range.
func (m *lockModel) release(o *vfs.Open, r vfs.Range) ntstatus.Status {
	if tooFar(r) {
		return ntstatus.InvalidLockRange
	}
	for _, exclusive := range []bool{true, false} {
		if i := slices.Index(m.held, modelLock{o, vfs.Lock{Range: r, Exclusive: exclusive}}); i >= 0 {
			m.held = slices.Delete(m.held, i, i+1)
			return ntstatus.Success
		}
	}
	return ntstatus.RangeNotLocked
}

// grant grants waiting locks.
func (m *lockModel) grant(t *rapid.T) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w modelWait) bool {
		if !m.free(w.o, w.l) {
			return false
		}
		m.held = append(m.held, w.modelLock)
		wantStatusRapid(t, "wait", w.w.Wait(context.Background()), ntstatus.Success)
		return true
	})
}

func (m *lockModel) giveUp(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("no lock waits")
	}
	i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "wait")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantStatusRapid(t, "wait", m.waiting[i].w.Wait(ctx), ntstatus.Cancelled)
	m.waiting = slices.Delete(m.waiting, i, i+1)
}

func (m *lockModel) close(t *rapid.T) {
	if len(m.opens) == 1 {
		t.Skip("the last")
	}
	o := m.some(t)
	wantStatusRapid(t, "close", o.Close(), ntstatus.Success)
	m.opens = slices.DeleteFunc(m.opens, func(other *vfs.Open) bool { return other == o })
	m.held = slices.DeleteFunc(m.held, func(h modelLock) bool { return h.o == o })
	m.waiting = slices.DeleteFunc(m.waiting, func(w modelWait) bool {
		if w.o == o {
			wantStatusRapid(t, "wait", w.w.Wait(context.Background()), ntstatus.RangeNotLocked)
		}
		return w.o == o
	})
	m.grant(t)
}

func (m *lockModel) io(t *rapid.T) {
	o := m.some(t)
	r := vfs.Range{Off: rapid.Uint64Range(0, 20).Draw(t, "off"), Len: rapid.Uint64Range(1, 8).Draw(t, "len")}
	write := rapid.Bool().Draw(t, "write")
	want := ntstatus.Success
	for _, h := range m.held {
		if meet(h.l.Range, r) && (h.o != o && (write || h.l.Exclusive) || write && !h.l.Exclusive) {
			want = ntstatus.FileLockConflict
		}
	}
	if err := o.Acquire(); err != nil {
		t.Fatal(err)
	}
	defer o.Release()
	var err error
	if p := make([]byte, r.Len); write {
		_, err = o.WriteAt(p, int64(r.Off))
	} else {
		_, err = o.ReadAt(p, int64(r.Off))
	}
	wantStatusRapid(t, "I/O", err, want)
}

// agree compares how many locks there are: a leak would show.
func (m *lockModel) agree(t *rapid.T) {
	if st := m.s.Stats(); st.Locks != len(m.held) || st.WaitingLocks != len(m.waiting) {
		t.Fatalf("%d locks, %d waiting; want %d and %d", st.Locks, st.WaitingLocks, len(m.held), len(m.waiting))
	}
}
