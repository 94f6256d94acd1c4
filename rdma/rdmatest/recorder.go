package rdmatest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// recorder is a test that keeps its outcome instead of reporting it.
type recorder struct {
	testing.TB

	mu              sync.Mutex
	failed, skipped bool
	log             []string
	cleanups        []func()
}

// record runs f as a separate test and returns its outcome.
func record(parent testing.TB, f func(testing.TB)) *recorder {
	r := &recorder{TB: parent}
	inGoroutine(func() { f(r) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		inGoroutine(last)
	}
	return r
}

// inGoroutine runs f to its end or to the end of its goroutine.
func inGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) note(s string, failed, skipped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, s)
	r.failed = r.failed || failed
	r.skipped = r.skipped || skipped
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Skipped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

func (r *recorder) Log(args ...any)            { r.note(fmt.Sprintln(args...), false, false) }
func (r *recorder) Logf(f string, args ...any) { r.note(fmt.Sprintf(f, args...), false, false) }

func (r *recorder) Fail()                        { r.note("", true, false) }
func (r *recorder) Error(args ...any)            { r.note(fmt.Sprintln(args...), true, false) }
func (r *recorder) Errorf(f string, args ...any) { r.note(fmt.Sprintf(f, args...), true, false) }

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(f string, args ...any) {
	r.Errorf(f, args...)
	runtime.Goexit()
}

func (r *recorder) SkipNow() {
	r.note("", false, true)
	runtime.Goexit()
}

func (r *recorder) Skip(args ...any) {
	r.note(fmt.Sprintln(args...), false, true)
	runtime.Goexit()
}

func (r *recorder) Skipf(f string, args ...any) {
	r.note(fmt.Sprintf(f, args...), false, true)
	runtime.Goexit()
}
