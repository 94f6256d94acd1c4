package survive

import (
	"math/rand/v2"
	"testing"
	"time"

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
// kill the files have every acknowledged write whole, and none that was refused. The times from
// the kill to the first answers are printed.
//
// Source: [OP-92f], [OP-112]
func TestAcknowledgedWritesOutliveKills(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	took := new(durations)
	work := newTeam(t, s, directory(dir), took)
	work.start()
	for i := range *kills {
		if err := work.progress(1); err != nil {
			t.Fatal(err)
		}
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

// TestAcknowledgedWritesOutliveCuts cuts the connections of clients, SMB, RDMA, or both. The files have every
// acknowledged write, and none that was refused. RDMA connections are replaced without an error of any call.
//
// Source: [OP-92f], [OP-112]
func TestAcknowledgedWritesOutliveCuts(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	for _, c := range []struct {
		name     string
		lossless bool
		cut      func(w *worker)
	}{
		{"RDMA", true, func(w *worker) { w.cutRDMA() }},
		{"SMB", false, func(w *worker) { w.cutSMB() }},
		{"both", false, func(w *worker) {
			w.cutRDMA()
			w.cutSMB()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			work := newTeam(t, s, directory(dir), new(durations))
			for _, w := range work.members {
				w.lossless = c.lossless
			}
			work.start()
			for range *kills {
				if err := work.progress(1); err != nil {
					t.Fatal(err)
				}
				time.Sleep(rand.N(mostDelay))
				c.cut(work.members[rand.IntN(len(work.members))])
			}
			if err := work.progress(1); err != nil {
				t.Fatal(err)
			}
			if err := work.end(); err != nil {
				t.Fatal(err)
			}
			expectNothingLeft(t, s)
			if err := work.checkAtRest(directory(dir)); err != nil {
				t.Fatal(err)
			}
		})
	}
}
