package survive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"lwio/integration/internal/crash"
	"lwio/integration/internal/supervise"
	"lwio/internal/statefile"
)

// reached bounds the time in which a server comes to a point.
const reached = time.Minute

// crashingServer starts a server with the points of package crash, and a state, on a directory.
func crashingServer(t *testing.T, dir string) (s *supervise.Server, state string) {
	t.Helper()
	bin, err := crash.Build("../..", t.TempDir(), slices.Concat(crash.Making, crash.Starting, crash.Serving, crash.Redoing), []crash.Line{crash.SmallLog})
	if err != nil {
		t.Fatal(err)
	}
	flags := stateFlags(t, true)
	return serveBinary(t, bin, dir, flags...), flags[1]
}

// TestServerDiesAtChosenPoints has the server kill itself in the middle of its work, at each point of package crash,
// while clients write, lock, sync, create, rename and remove files. It dies again while it restores the opens.
// Clients see no error, no two of them have a lock, and the files have every acknowledged write. At the end no file, lock,
// open or record is left.
//
// Source: [OP-42], [OP-92f], [OP-112]
func TestServerDiesAtChosenPoints(t *testing.T) {
	dir := t.TempDir()
	s, state := crashingServer(t, dir)
	work := newTeam(t, s, directory(dir), new(durations))
	for _, w := range work.members {
		w.lossless = true
	}
	work.start()
	done := startErrands(t, s)
	t.Cleanup(func() { // before the clients leave
		if t.Failed() {
			_ = errors.Join(s.Kill(), s.Start())
		}
	})
	die := func(p crash.Point) {
		t.Helper()
		if err := s.RunUntilKilled(reached, p.At(1+rand.N(max(p.Most, 1)))); err != nil {
			t.Fatal(p.Name, ": ", err, done.err(), work.progress(0))
		}
		if err := errors.Join(work.checkAtRest(directory(dir)), done.err()); err != nil {
			t.Fatal(p.Name, ": ", err)
		}
	}
	progress := func() {
		t.Helper()
		if err := errors.Join(work.progress(1), done.progress()); err != nil {
			t.Fatal(err)
		}
		expectHeld(t, s, done.holds(work.holds(true)))
	}
	for range max(1, *kills/len(crash.Serving)) {
		progress()
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, i := range rand.Perm(len(crash.Serving)) {
			die(crash.Serving[i])
			if i < len(crash.Starting) {
				die(crash.Starting[i])
			}
			if i < len(crash.Redoing) {
				die(crash.WithoutResult)
				die(crash.Redoing[i])
			}
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	progress()
	if err := errors.Join(work.end(), done.end()); err != nil {
		t.Fatal(err)
	}
	expectNothingLeft(t, s)
	expectFiles(t, dir, work)
	expectNoRecords(t, s, state)
}

// expectFiles expects only the files of a team in a directory, and the one that errands share.
func expectFiles(t *testing.T, dir string, work *team) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name() != shared && !slices.ContainsFunc(work.members, func(w *worker) bool { return w.name == e.Name() }) {
			t.Errorf("the file %s is left", e.Name())
		}
	}
}

// expectNoRecords ends a server, and expects no record in its state.
func expectNoRecords(t *testing.T, s *supervise.Server, state string) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	log, err := statefile.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	err = log.Each(func(k statefile.Key, value []byte) error {
		return fmt.Errorf("the record %+v is left: %q", k, value)
	})
	if err := errors.Join(err, log.Close()); err != nil {
		t.Error(err)
	}
}

// TestStateDirectoryIsMadeAgain has the server die while it makes the directory of its state. The next one starts.
func TestStateDirectoryIsMadeAgain(t *testing.T) {
	s, state := crashingServer(t, t.TempDir())
	for _, p := range crash.Making {
		if err := errors.Join(s.Kill(), os.RemoveAll(state)); err != nil {
			t.Fatal(err)
		}
		if err := s.RunUntilKilled(reached, p.At(1)); err != nil {
			t.Fatal(p.Name, ": ", err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(p.Name, ": ", err)
		}
	}
}
