// Package leakcheck fails tests that leak goroutines, open descriptors or shared mappings. The
// last two are checked on Linux only.
//
// A package's tests use it once, or around a single test:
//
//	func TestMain(m *testing.M) { leakcheck.Main(m) }
//
//	func TestOne(t *testing.T) { leakcheck.Check(t); ... }
//
// It is for tests that run one after another: a test that runs in parallel would fail for the
// resources of others.
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

// Patience is the time in which a resource must disappear after its owner closed it. Only a real
// leak makes a test wait so long; on a busy machine resources disappear sooner, but not within
// seconds.
const Patience = 30 * time.Second

// Snapshot has the resources that exist at some time and do not count as leaks.
type Snapshot struct {
	goroutines goleak.Option
	open       map[string]string
	patience   time.Duration
}

// Take returns a snapshot of the current resources.
func Take() Snapshot {
	startPoller()
	return Snapshot{goroutines: goleak.IgnoreCurrent(), open: resources(), patience: Patience}
}

// Err waits up to half a minute until the resources that are newer than the snapshot are
// gone. It returns an error that lists the remaining ones, or nil.
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
	for name, target := range resources() {
		if was, ok := s.open[name]; !ok || was != target {
			left = append(left, name+" "+target)
		}
	}
	return left
}

// onlyPipes reports whether pipes are left and nothing else: the Go runtime pools pipes for copies
// between sockets until it collects garbage.
func onlyPipes(left []string) bool {
	return len(left) > 0 && !slices.ContainsFunc(left, func(s string) bool { return !strings.Contains(s, " pipe:[") })
}

// Check fails the test at its end, after all its other cleanups, if it leaks. Call it first.
func Check(tb testing.TB) {
	tb.Helper()
	CheckWithin(tb, Patience)
}

// CheckWithin is Check with another time in which resources must disappear, for tests that leak.
func CheckWithin(tb testing.TB, patience time.Duration) {
	tb.Helper()
	s := Take()
	s.patience = patience
	s.checkAtEnd(tb)
}

// checkAtEnd fails the test at its end if it leaks.
func (s Snapshot) checkAtEnd(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := s.Err(); err != nil {
			tb.Errorf("leak: %v", err)
		}
	})
}

// Main runs the tests of a package and exits, with status 1 if a test failed or if they leak
// together.
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

// startPoller makes the Go runtime open its own descriptors, so that they are in the snapshot.
func startPoller() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	r.Close()
	w.Close()
}
