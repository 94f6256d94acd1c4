package statefile

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"testing"
	"time"
)

// newBound returns the bound of a process that uses the directory.
func newBound(d *fakeDir, boot string) *TimeBound {
	t := new(TimeBound)
	t.init(d, boot)
	return t
}

// stored returns the bound in a directory.
func stored(d *fakeDir) time.Time {
	return time.Unix(0, int64(binary.LittleEndian.Uint64(d.files[boundName])))
}

// The next process finds a bound that is later than each change, and not by more than a step.
func TestBoundIsAheadOfChanges(t *testing.T) {
	d := newFakeDir()
	b := newBound(d, "boot")
	if _, err := b.Earlier(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a bound without an earlier process: %v", err)
	}
	for range 3 {
		b.until.Store(0) // as if the last one was long ago
		before := time.Now()
		b.Cover()
		got, err := newBound(d, "boot").Earlier()
		if err != nil || got.Before(before.Add(BoundStep)) || got.After(time.Now().Add(2*BoundStep)) { // a pause makes it later
			t.Errorf("%v after %v, %v", got, before, err)
		}
	}
	if _, err := newBound(d, "other").Earlier(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a bound of another run of the host: %v", err)
	}
}

// Of many changes within half a step one moves the bound. None allocates.
func TestCoverIsCheap(t *testing.T) {
	d := newFakeDir()
	b := newBound(d, "boot")
	writes := 0
	d.fail = func(op string) error {
		if op == "write" {
			writes++
		}
		return nil
	}
	b.Cover()
	b.until.Store(int64(time.Hour))
	if n := testing.AllocsPerRun(100, b.Cover); n != 0 || writes != 1 {
		t.Errorf("%v allocations, %d stores", n, writes)
	}
}

// After the end of the process the bound is the present time: a later change is one of others.
func TestBoundAfterCloseIsThePresent(t *testing.T) {
	d := newFakeDir()
	b := newBound(d, "boot")
	b.Cover()
	before := time.Now()
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	b.until.Store(0)
	b.Cover() // of a write that no one waits for
	got, err := newBound(d, "boot").Earlier()
	if err != nil || got.Before(before) || got.After(time.Now().Add(BoundStep/2)) {
		t.Errorf("%v, %v", got, err)
	}
}

// A process that has changed nothing leaves the bound of the one before it.
func TestBoundOfAnIdleProcess(t *testing.T) {
	d := newFakeDir()
	first := newBound(d, "boot")
	first.Cover()
	want := stored(d)
	if err := newBound(d, "boot").close(); err != nil {
		t.Fatal(err)
	}
	if got, err := newBound(d, "boot").Earlier(); err != nil || got.Before(want) || !stored(d).Equal(want) {
		t.Errorf("%v instead of %v, %v", got, want, err)
	}
}

// A clock that is set forward, or a host that is suspended, makes the bound of the earlier process later by as much, and
// a clock that is set back does not make it earlier: neither of them makes a change of the process itself one of others.
func TestBoundOutlivesStepsOfTheClock(t *testing.T) {
	const step = time.Hour
	for name, x := range map[string]struct {
		offset time.Duration // by which the clock was later at the last change than now
		ahead  time.Duration // of the bound of that change, as the present clock shows it
	}{
		"set forward": {-step, 0}, "set back": {step, step},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeDir()
			want := time.Now().Add(x.ahead)
			newBound(d, "boot").Cover()
			b := d.files[boundName]
			for at := range 2 { // the bound and the offset
				binary.LittleEndian.PutUint64(b[8*at:], binary.LittleEndian.Uint64(b[8*at:])+uint64(x.offset))
			}
			for range 3 { // processes
				next := newBound(d, "boot")
				if got, err := next.Earlier(); err != nil || got.Before(want) {
					t.Fatalf("%v, and a change may have the time %v, %v", got, want, err)
				}
				next.Cover()
				if err := next.close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A bound that the file system refuses is removed: a bound that is too early would be worse than none. The next one is stored.
func TestBoundThatCannotBeStoredIsRemoved(t *testing.T) {
	for _, op := range []string{"write", "create", "reserve"} {
		t.Run(op, func(t *testing.T) {
			d := newFakeDir()
			b := newBound(d, "boot")
			if op == "write" {
				b.Cover()
			}
			broken := errors.New("broken")
			d.fail = func(asked string) error {
				if asked == op {
					return broken
				}
				return nil
			}
			if err := b.Extend(); !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
			if _, err := newBound(d, "boot").Earlier(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a bound is left: %v", err)
			}
			d.fail = nil
			if err := b.Extend(); err != nil {
				t.Fatal(err)
			}
			if _, err := newBound(d, "boot").Earlier(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A process that dies while it moves the bound leaves the last one, the next one or none.
func TestDeathWhileTheBoundMoves(t *testing.T) {
	for steps := 0; ; steps++ {
		d := newFakeDir()
		newBound(d, "boot").Cover()
		last := stored(d)
		b := newBound(d, "boot")
		d.steps = steps
		err := b.Extend()
		d.steps = -1
		got, e := newBound(d, "boot").Earlier()
		if e == nil && got.Before(last) || e != nil && (err == nil || !errors.Is(e, fs.ErrNotExist)) {
			t.Fatalf("%d steps: %v after %v, %v, %v", steps, got, last, err, e)
		}
		if err == nil {
			return
		}
	}
}

// A real directory has the bound.
func TestBoundOfADirectory(t *testing.T) {
	dir := t.TempDir() + "/state"
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.TimeBound().Cover()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.TimeBound().Earlier(); err != nil {
		t.Error(err)
	}
}

// The cost of a change for the bound.
func BenchmarkCover(b *testing.B) {
	t := newBound(newFakeDir(), "boot")
	t.Cover()
	for b.Loop() {
		t.Cover()
	}
}
