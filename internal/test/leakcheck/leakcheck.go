// Package leakcheck fails tests that leave something behind: goroutines, open
// descriptors, shared mappings. The last two are looked at on Linux only.
//
// A package's tests use it once, or around a single test:
//
//	func TestMain(m *testing.M) { leakcheck.Main(m) }
//
//	func TestOne(t *testing.T) { leakcheck.Check(t); ... }
//
// It is for tests that run one after another; a test that runs in parallel
// would be blamed for what its neighbours have open.
package leakcheck

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long something may take to go away after its owner closed it. Only
// what is left indeed makes a test wait so long; what a crowded machine holds up is gone
// sooner, but not within seconds.
const patience = 30 * time.Second

// Snapshot is what was there at a moment and is no leak therefore.
type Snapshot struct {
	goroutines goleak.Option
	open       map[string]string
	patience   time.Duration
}

// Take notes what is there now.
func Take() Snapshot {
	startPoller()
	return Snapshot{goroutines: goleak.IgnoreCurrent(), open: resources(), patience: patience}
}

// Err waits up to half a minute for what came after the snapshot to go away, and
// lists what did not. It is nil if nothing is left.
func (s Snapshot) Err() error {
	goroutines, left := goleak.Find(s.goroutines), s.left()
	for end := time.Now().Add(s.patience); (goroutines != nil || len(left) > 0) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		if onlyPipes(left) {
			runtime.GC()
		}
		goroutines, left = goleak.Find(s.goroutines), s.left()
	}
	var errs []error
	if goroutines != nil {
		errs = append(errs, fmt.Errorf("leaked goroutines: %w", goroutines))
	}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("left open:\n\t%s", strings.Join(left, "\n\t")))
	}
	return errors.Join(errs...)
}

// left lists the descriptors and mappings that the snapshot does not have.
func (s Snapshot) left() []string {
	var left []string
	for name, what := range resources() {
		if was, ok := s.open[name]; !ok || was != what {
			left = append(left, name+" "+what)
		}
	}
	return left
}

// onlyPipes tells whether there is something left, and nothing but pipes: those that the
// Go runtime copies between sockets with stay in a pool until it collects garbage.
func onlyPipes(left []string) bool {
	return len(left) > 0 && !slices.ContainsFunc(left, func(s string) bool { return !strings.Contains(s, " pipe:[") })
}

// Check fails the test at its end, after all its other cleanups, if it left
// something behind. Call it first.
func Check(tb testing.TB) {
	tb.Helper()
	Take().checkAtEnd(tb)
}

// checkAtEnd fails the test at its end if more is there then than in the snapshot.
func (s Snapshot) checkAtEnd(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := s.Err(); err != nil {
			tb.Errorf("leak: %v", err)
		}
	})
}

// Main runs the tests of a package and exits, with status 1 if a test failed or
// if they left something behind together.
func Main(m *testing.M) {
	s := Take()
	code := m.Run()
	if code == 0 {
		if err := s.Err(); err != nil {
			fmt.Fprintf(os.Stderr, "leak after all tests passed: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// startPoller makes the Go runtime open the descriptors that it keeps for
// itself, so that they are there before and after.
func startPoller() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	r.Close()
	w.Close()
}
