package host

import (
	"os"
	"testing"

	"lwio/internal/test/skip"
)

func TestDescriptorShareBounds(t *testing.T) {
	for _, s := range []struct{ limit, most, part, want int }{
		{0, 100, 2, 100}, {1024, 100, 2, 100}, {1024, 1000, 2, 512}, {10, 1000, 16, 1}, {0, 0, 2, 1},
	} {
		if got := share(s.limit, s.most, s.part); got != s.want {
			t.Errorf("one in %d of %d, at most %d: %d, want %d", s.part, s.limit, s.most, got, s.want)
		}
	}
}

func TestDescriptorLimitCoversOpenFile(t *testing.T) {
	n := descriptorLimit()
	if n == 0 {
		skip.Test(t, "no limit is known here")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n < 3 || int(f.Fd()) >= n {
		t.Errorf("descriptor %d of %d", f.Fd(), n)
	}
}
