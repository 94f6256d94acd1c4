package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
)

// restartCount is the number of restarts of each kind.
const restartCount = 20

// recordSize is the size of a record of a recorder, in bytes.
const recordSize = 4096

// recordDepth is the number of records that a recorder writes at a time.
const recordDepth = 4

// recorder writes records to a file of its own until it is ended.
type recorder struct {
	name       string
	next, done atomic.Int64 // records begun and acknowledged
	longest    atomic.Int64 // time of a write, in nanoseconds
	stop       chan struct{}
	running    sync.WaitGroup

	mu  sync.Mutex
	err error
}

// startRecorder starts a recorder over a transport.
func startRecorder(t *testing.T, url, transport string) *recorder {
	t.Helper()
	r := &recorder{name: "records-" + transport, stop: make(chan struct{})}
	c, err := lwio.Dial(t.Context(), url+"?provider="+transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f, err := c.OpenFile(t.Context(), r.name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	for range recordDepth {
		r.running.Go(func() { r.note(r.record(f)) })
	}
	return r
}

// record writes records, one after the other.
func (r *recorder) record(f *lwio.File) error {
	p := make([]byte, recordSize)
	for {
		select {
		case <-r.stop:
			return nil
		default:
		}
		n := r.next.Add(1)
		binary.LittleEndian.PutUint64(p, uint64(n))
		begun := time.Now()
		if _, err := f.WriteAt(p, (n-1)*recordSize); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		r.done.Add(1)
		took := int64(time.Since(begun))
		for old := r.longest.Load(); took > old && !r.longest.CompareAndSwap(old, took); old = r.longest.Load() {
		}
	}
}

// note notes an error.
func (r *recorder) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}

// goesOn waits until the recorder has written more records.
func (r *recorder) goesOn(t *testing.T) {
	t.Helper()
	begun, late := r.done.Load(), time.Now().Add(patience)
	for r.done.Load() < begun+2*recordDepth {
		r.mu.Lock()
		err := r.err
		r.mu.Unlock()
		if err != nil || time.Now().After(late) {
			t.Fatalf("%s: no record was written in time: %v", r.name, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// pause returns the longest time of a write since the last call.
func (r *recorder) pause() time.Duration { return time.Duration(r.longest.Swap(0)) }

// end ends the recorder, and checks its records in the directory.
func (r *recorder) end(t *testing.T, dir string) {
	t.Helper()
	close(r.stop)
	r.running.Wait()
	if r.err != nil {
		t.Errorf("%s: after %d records: %v", r.name, r.done.Load(), r.err)
	}
	got, err := os.ReadFile(filepath.Join(dir, r.name))
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.next.Load() {
		if n := binary.LittleEndian.Uint64(got[i*recordSize:]); n != uint64(i)+1 {
			t.Fatalf("%s: record %d of %d acknowledged ones has the number %d", r.name, i+1, r.done.Load(), n)
		}
	}
}

// errands changes names, locks and sizes over SMB until it is ended, and makes new connections.
type errands struct {
	rounds  atomic.Int64
	err     error
	stop    chan struct{}
	running sync.WaitGroup
}

// startErrands starts errands of two kinds.
func startErrands(t *testing.T, url string) *errands {
	t.Helper()
	e := &errands{stop: make(chan struct{})}
	c, err := lwio.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var mu sync.Mutex
	for i, round := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return changeNames(ctx, c) },
		func(ctx context.Context) error { return listAnew(ctx, url) },
	} {
		e.running.Go(func() {
			for {
				select {
				case <-e.stop:
					return
				default:
				}
				if err := round(t.Context()); err != nil {
					mu.Lock()
					e.err = errors.Join(e.err, fmt.Errorf("errand %d: %w", i, err))
					mu.Unlock()
					return
				}
				e.rounds.Add(1)
			}
		})
	}
	return e
}

// changeNames makes, locks, truncates, renames and removes a file.
func changeNames(ctx context.Context, c *lwio.Client) error {
	if err := c.Mkdir(ctx, "dir", 0o755); err != nil {
		return err
	}
	f, err := c.OpenFile(ctx, "dir/new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	all := lwio.Range{Off: 0, Len: 100}
	err = f.Lock(ctx, all, lwio.LockExclusive)
	for _, do := range []func() error{
		func() error { return f.Truncate(ctx, 1000) },
		func() error { return f.Unlock(ctx, all) },
		func() error { return c.Rename(ctx, "dir/new", "dir/old") },
		f.Close,
		func() error { return c.Remove(ctx, "dir/old") },
		func() error { return c.Remove(ctx, "dir") },
	} {
		if err == nil {
			err = do()
		}
	}
	return err
}

// listAnew lists the share on a connection of its own.
func listAnew(ctx context.Context, url string) error {
	c, err := lwio.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	_, err = c.ReadDir(ctx, ".")
	return errors.Join(err, c.Close())
}

// end ends the errands.
func (e *errands) end(t *testing.T) {
	t.Helper()
	close(e.stop)
	e.running.Wait()
	if e.err != nil {
		t.Errorf("after %d errands: %v", e.rounds.Load(), e.err)
	}
}

// Writers of acknowledged records go on through planned restarts of each kind: a hand-over to a new process,
// and a stop and a start by a supervisor that keeps the sockets. No call fails, and no write is lost.
func TestClientsGoOnThroughPlannedRestarts(t *testing.T) {
	for name, restart := range map[string]func(*supervisor){"HandOver": (*supervisor).handOver, "Supervisor": (*supervisor).restart} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
			s.start()
			url := s.line()
			var all []*recorder
			for _, transport := range []string{"shm", "iwarp", lwio.TransportSMB} {
				all = append(all, startRecorder(t, url, transport))
			}
			others := startErrands(t, url)
			pauses := make(map[string][]time.Duration)
			kept := s.names()
			open := 0
			count := restartCount
			if testing.Short() {
				count = 3
			}
			for i := range count {
				for _, r := range all {
					r.goesOn(t)
					r.pause()
				}
				restart(s)
				for _, r := range all {
					r.goesOn(t)
					pauses[r.name] = append(pauses[r.name], r.pause())
				}
				if n := s.descriptors(); i == 1 {
					open = n
				} else if i > 1 && n > open+20 { // connections that are being made or replaced
					t.Errorf("%d descriptors after %d restarts, and %d after 2", n, i+1, open)
				}
			}
			others.end(t)
			for _, r := range all {
				r.end(t, filepath.Join(s.dir, "data"))
				slices.Sort(pauses[r.name])
				t.Logf("%s: %d records; pause of a restart p50 %v, max %v", r.name, r.done.Load(),
					pauses[r.name][count/2].Round(time.Millisecond), pauses[r.name][count-1].Round(time.Millisecond))
			}
			if now := s.names(); len(now) != len(kept) {
				t.Errorf("the supervisor keeps %q, and at first %q", now, kept)
			}
			s.stop()
			if left := len(s.lines); name == "HandOver" && left > 0 {
				t.Errorf("%d more lines, such as %q", left, <-s.lines)
			}
		})
	}
}

// descriptors returns the number of open descriptors of the main process.
func (s *supervisor) descriptors() int {
	s.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(entries)
}
