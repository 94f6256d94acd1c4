package vfs_test

import (
	"os"
	"testing"
)

// checkDescriptors fails the test if it leaves descriptors open. It is for tests
// that do not run in parallel.
func checkDescriptors(t testing.TB) {
	t.Helper()
	// The first pipe makes the runtime open its poller, which stays.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	before := descriptors(t)
	t.Cleanup(func() {
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func descriptors(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
