package smbserver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/statefile"
	"lwio/vfs"
)

// appendTo changes a file like a program of the host.
func appendTo(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("other")
	return errors.Join(err, f.Close())
}

// A file that a program of the host has changed while no server ran is given back to opens that let others write, and to
// no other. Changes by the clients, changes before the death of the server, and changes of the permissions alone keep no
// open from its client.
func TestFileChangedByOthersIsNotRestored(t *testing.T) {
	const all, rw = 7, 3
	lock := func(c *raw, id [16]byte, _ string) error {
		c.want(ntstatus.Success, cmdLock, unnumbered(id, element{0, 10, lockShared | lockNow}))
		return nil
	}
	write := func(c *raw, id [16]byte, _ string) error {
		c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("mine")))
		return nil
	}
	changed := func(_ *raw, _ [16]byte, name string) error { return appendTo(name) }
	touched := func(_ *raw, _ [16]byte, name string) error {
		info, err := os.Stat(name)
		return errors.Join(err, appendTo(name), os.Chtimes(name, time.Time{}, info.ModTime()))
	}
	inFuture := func(_ *raw, _ [16]byte, name string) error {
		return os.Chtimes(name, time.Time{}, time.Now().Add(time.Hour))
	}
	mode := func(_ *raw, _ [16]byte, name string) error { return os.Chmod(name, 0o600) }
	cases := []struct {
		name          string // of the file
		access, share uint32
		before, after []func(c *raw, id [16]byte, name string) error
		want          ntstatus.Status
	}{
		{name: "denies writing", access: rw, share: 1, after: list(changed), want: ntstatus.FileForcedClosed},
		{name: "denies all", access: rw, after: list(changed), want: ntstatus.FileForcedClosed},
		{name: "reads, and denies writing", access: 1, share: 1, after: list(changed), want: ntstatus.FileForcedClosed},
		{name: "lock", access: rw, share: all, before: list(lock), after: list(changed), want: ntstatus.FileForcedClosed},
		{name: "writes, and a lock", access: rw, share: all, before: list(write, lock), after: list(changed), want: ntstatus.FileForcedClosed},
		{name: "shared", access: rw, share: all, after: list(changed)},
		{name: "attributes only", access: 0x80, after: list(changed)},
		{name: "unchanged", access: rw, before: list(write)},
		{name: "changed before", access: rw, before: list(write, changed)},
		{name: "the permissions", access: rw, after: list(mode)},
		{name: "a time in the future, before", access: rw, before: list(inFuture)},
		{name: "changed, and the time is put back", access: rw, after: list(touched)},
	}
	for stop, end := range map[string]func(r *restarts){"dies": (*restarts).die, "stops": func(r *restarts) { r.stop() }} {
		t.Run(stop, func(t *testing.T) {
			r, _, addr := newRestarts(t)
			c, ids := mount(t, addr, "data"), make([][16]byte, len(cases))
			run := func(i int, steps []func(*raw, [16]byte, string) error) {
				for _, do := range steps {
					if err := do(c, ids[i], filepath.Join(r.data, cases[i].name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i, x := range cases {
				if err := os.WriteFile(filepath.Join(r.data, x.name), []byte("0123456789"), 0o644); err != nil {
					t.Fatal(err)
				}
				ids[i] = c.mustCreate(persistent(create{name: x.name, access: x.access, share: x.share, disposition: 1}, i+1, 0))
				run(i, x.before)
			}
			if err := r.log.TimeBound().Extend(); err != nil { // as the timer does
				t.Fatal(err)
			}
			end(r)
			passBound()
			for i, x := range cases {
				run(i, x.after)
			}
			_, addr = r.start()
			c = c.resume(addr)
			for i, x := range cases {
				if got := c.call(cmdCreate, reclaiming(ids[i], i+1).body()); got.status != x.want {
					t.Errorf("%s: %v instead of %v", x.name, got.status, x.want)
				}
			}
		})
	}
}

// list is a list of steps.
func list[T any](all ...T) []T { return all }

// passBound waits until the time of a change is later than each bound of a server that has ended. The file system may
// take the time of a change from a clock that is some milliseconds behind.
func passBound() {
	for end := time.Now().Add(statefile.BoundStep + 100*time.Millisecond); !time.Now().After(end); {
		time.Sleep(time.Until(end) + time.Millisecond)
	}
}

// Times of a file system whose clock is not that of the host say nothing.
func TestChangeIsNotNoticedWithAnotherClock(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(exclusive("f"), 1, 0))
	r.stop()
	passBound()
	if err := appendTo(filepath.Join(r.data, "f")); err != nil {
		t.Fatal(err)
	}
	r.wrap = func(b vfs.Backend) vfs.Backend { return otherClock{b} }
	_, addr = r.start()
	c.resume(addr).mustReclaim(id, 1)
}

// otherClock is a backend of a file system that another host serves.
type otherClock struct{ vfs.Backend }

func (b otherClock) Volume() (vfs.VolumeInfo, error) {
	v, err := b.Backend.Volume()
	v.HostClock = false
	return v, err
}

// A lock and an open move the bound, and it keeps ahead of the clock while there are durable opens.
func TestBoundKeepsAheadOfTheClock(t *testing.T) {
	r, s, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(create{name: "f", access: 3, share: 7, disposition: 3}, 1, 0))
	bound := func() time.Time {
		b, err := os.ReadFile(filepath.Join(r.state, "times"))
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(0, int64(le.Uint64(b)))
	}
	s.lineages.own.stop()
	for name, do := range map[string]func(){
		"lock": func() { c.want(ntstatus.Success, cmdLock, unnumbered(id, element{0, 10, lockShared | lockNow})) },
		"open": func() { c.mustCreate(persistent(create{name: "f", access: 1, share: 7, disposition: 1}, 2, 0)) },
	} {
		passBound()
		before := time.Now()
		do()
		if got := bound(); got.Before(before) {
			t.Errorf("%s: %v, after %v", name, got, before)
		}
	}
	r.stop()
	r.start() // with orphans
	last := bound()
	for start := time.Now(); !bound().After(last.Add(2 * statefile.BoundStep)); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > ioTimeout {
			t.Fatal("the bound does not move")
		}
	}
}
