package host

import (
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/test/skip"
)

// Written pages are cached; a range with a single page of a hole is not.
func TestPagesCachedOfHoles(t *testing.T) {
	page := os.Getpagesize()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		for _, at := range []int{0, 31 * page} {
			if _, err := f.WriteAt(make([]byte, 30*page), int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	if _, known := PagesCached(f, 0, 1); !known {
		skip.Test(t, "this kernel does not report it")
	}
	for _, r := range []struct {
		off, n int
		want   bool
	}{
		{0, 1, true}, {7, 0, true}, {0, 30 * page, true}, {5, 29 * page, true}, {31 * page, 30 * page, true}, {60*page + 5, 1, true},
		{0, 30*page + 1, false}, {30 * page, 1, false}, {31*page - 1, 2, false}, {0, 61 * page, false}, {31 * page, 31 * page, false},
	} {
		write() // the kernel does not drop dirty pages
		if cached, known := PagesCached(f, int64(r.off), r.n); cached != r.want || !known {
			t.Errorf("%d bytes at %d: %v, %v", r.n, r.off, cached, known)
		}
	}
	f.Close()
	if _, known := PagesCached(f, 0, 1); known {
		t.Error("something is known of a file that is closed")
	}
}
