package survive

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/supervise"
)

// mostDelay bounds the random time between the start of the work and the next failure.
const mostDelay = 60 * time.Millisecond

// newTeam makes two workers for each transport.
func newTeam(t *testing.T, s *supervise.Server, files store, took *durations) *team {
	t.Helper()
	var members []*worker
	for i, transport := range append(transports, transports...) {
		w, err := newWorker(s, files, i, transport, took)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, w)
	}
	work := &team{members: members}
	t.Cleanup(func() {
		if err := work.end(); err != nil {
			t.Error(err)
		}
		for _, w := range members {
			t.Log(w)
		}
		took.log(t)
	})
	return work
}

// TestAcknowledgedWritesOutliveKills kills the server while clients write to it over each transport. After each
// kill the files have every acknowledged write whole, and none that was refused, and the next server holds no more than its
// clients. The times from the kill to the first answers are printed.
//
// Source: [OP-92f], [OP-112]
func TestAcknowledgedWritesOutliveKills(t *testing.T) {
	t.Run("without state", func(t *testing.T) { killUnderLedgers(t, false) })
	t.Run("with state", func(t *testing.T) { killUnderLedgers(t, true) })
}

// killUnderLedgers is TestAcknowledgedWritesOutliveKills for a server with or without state. With it, clients see no
// error.
func killUnderLedgers(t *testing.T, state bool) {
	dir := t.TempDir()
	s := serve(t, dir, stateFlags(t, state)...)
	took := new(durations)
	work := newTeam(t, s, directory(dir), took)
	for _, w := range work.members {
		w.lossless = state
	}
	work.start()
	for i := range *kills {
		if err := work.progress(1); err != nil {
			t.Fatal(err)
		}
		expectHeld(t, s, work.holds(state))
		time.Sleep(rand.N(mostDelay))
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := work.checkAtRest(directory(dir)); err != nil {
			t.Fatalf("kill %d: %v", i+1, err)
		}
		time.Sleep(rand.N(mostDelay)) // clients meet a host that does not listen
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		at := s.Times()
		took.add("supervisor: from the kill until the server listens again", at.Ready.Sub(at.Killed))
		took.add("start of the server", at.Ready.Sub(at.Begun))
	}
	if err := work.progress(1); err != nil {
		t.Fatal(err)
	}
	if err := work.end(); err != nil {
		t.Fatal(err)
	}
	expectNothingLeft(t, s)
}

// stateFlags are the flags of a server that gives files back after a restart, or none.
func stateFlags(t *testing.T, state bool) []string {
	t.Helper()
	if !state {
		return nil
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"--state", dir}
}

// cuts are the ways to cut connections of a client.
var cuts = []struct {
	name string
	do   func(w *wires)
}{
	{"RDMA", (*wires).cutRDMA},
	{"SMB", (*wires).cutSMB},
	{"both", func(w *wires) {
		w.cutRDMA()
		w.cutSMB()
	}},
}

// TestAcknowledgedWritesOutliveCuts cuts the connections of clients, SMB, RDMA, or both. They are replaced without
// an error of any call, and locks stay. The files have every acknowledged write, and none that was refused.
//
// Source: [OP-42], [OP-92f], [OP-112]
func TestAcknowledgedWritesOutliveCuts(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	for _, cut := range cuts {
		t.Run(cut.name, func(t *testing.T) {
			work := newTeam(t, s, directory(dir), new(durations))
			for _, w := range work.members {
				w.lossless = true
			}
			work.start()
			for range *kills {
				if err := work.progress(1); err != nil {
					t.Fatal(err)
				}
				expectHeld(t, s, work.holds(false))
				time.Sleep(rand.N(mostDelay))
				cut.do(&work.members[rand.IntN(len(work.members))].wires)
			}
			if err := errors.Join(work.progress(1), work.end()); err != nil {
				t.Fatal(err)
			}
			expectNothingLeft(t, s)
			if err := work.checkAtRest(directory(dir)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStoppedServerFailsNoCall stops the process of the server for longer than the clients wait for a sign of life.
// It goes on, and so do the clients, with their files and locks.
func TestStoppedServerFailsNoCall(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	work := newTeam(t, s, directory(dir), new(durations))
	for _, w := range work.members {
		w.lossless, w.keepAlive = true, time.Second
	}
	work.start()
	for range 2 {
		if err := work.progress(1); err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if err := s.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(work.progress(1), work.end(), work.checkAtRest(directory(dir))); err != nil {
		t.Fatal(err)
	}
}

// TestLockOfAnAbsentClientEnds cuts a client off that has a lock. Another client gets the lock after the time for which
// the server keeps it, and not before. The client that comes back too late has lost its open, and writes nothing.
//
// Source: [OP-42]
func TestLockOfAnAbsentClientEnds(t *testing.T) {
	const kept = 2 * time.Second
	ctx := t.Context()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			s := serve(t, dir, "--durable-timeout", kept.String())
			absent := new(wires)
			f := lockedFile(t, s, absent, transport)
			other := lockedFile(t, s, new(wires), transport)
			absent.refuse.Store(true)
			begin := time.Now()
			absent.cutSMB()
			absent.cutRDMA()
			if err := other.TryLock(ctx, lockedRange, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) && time.Since(begin) < kept {
				t.Errorf("a lock of a client that may come back: %v", err)
			}
			if err := other.Lock(ctx, lockedRange, lwio.LockExclusive); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < kept {
				t.Errorf("the lock ends after %v", took)
			}
			if _, err := other.WriteAt([]byte("other"), 0); err != nil {
				t.Fatal(err)
			}
			absent.refuse.Store(false)
			if _, err := f.WriteAt([]byte("absent"), 0); !errors.Is(err, lwio.ErrStale) {
				t.Errorf("a write of the client that lost its lock: %v", err)
			}
			if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, lwio.ErrStale) {
				t.Errorf("a read of the client that lost its lock: %v", err)
			}
			p := make([]byte, 5)
			if _, err := other.ReadAt(p, 0); string(p) != "other" || err != nil {
				t.Errorf("%q, %v", p, err)
			}
		})
	}
}

// lockedFile opens a file, and locks it if no other client does.
func lockedFile(t *testing.T, s *supervise.Server, w *wires, transport string) *lwio.File {
	t.Helper()
	c, err := lwio.Dial(t.Context(), s.URL(""), w.config(transport))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	f, err := c.OpenFile(t.Context(), "locked", os.O_RDWR|os.O_CREATE, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.TryLock(t.Context(), lockedRange, lwio.LockExclusive); err != nil && !errors.Is(err, lwio.ErrLocked) {
		t.Fatal(err)
	}
	return f
}
