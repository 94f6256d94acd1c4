package lwiotest_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"lwio/lwiotest"
)

// A server that does not start, since the process has no descriptor left for some step, leaves no
// descriptor and no goroutine.
func TestFailedStartLeavesNothing(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	dir := t.TempDir()
	s, err := lwiotest.Start(&lwiotest.Config{Dir: dir}) // opens the descriptors that the process keeps
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	descriptors, goroutines, failed := openDescriptors(t), runtime.NumGoroutine(), 0
	for most := uint64(3); ; most++ {
		low := syscall.Rlimit{Cur: most, Max: limit.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		s, err := lwiotest.Start(&lwiotest.Config{Dir: dir})
		restore()
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		failed++
		for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d goroutines after %v, %d before", runtime.NumGoroutine(), err, goroutines)
			}
		}
		if n := openDescriptors(t); n > descriptors {
			t.Fatalf("%d descriptors are open after %v, %d before", n, err, descriptors)
		}
	}
	if failed == 0 {
		t.Error("every start had its descriptors")
	}
}

// openDescriptors returns the number of open descriptors of the process.
func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
