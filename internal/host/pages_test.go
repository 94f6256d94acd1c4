package host

import (
	"bytes"
	"os"
	"runtime"
	"testing"
)

// Only whole pages are discarded, for any begin and end of the memory.
func TestDiscardPagesKeepsPartialPages(t *testing.T) {
	page := os.Getpagesize()
	buf := make([]byte, 8*page) // large enough to begin with a page
	if len(WholePages(buf)) != len(buf) {
		t.Fatal("the memory does not begin with a page")
	}
	for _, c := range []struct{ from, to, gone, goneTo int }{
		{0, 8 * page, 0, 8 * page},
		{page, 3 * page, page, 3 * page},
		{1, 3 * page, page, 3 * page},
		{page - 1, 3*page - 1, page, 2 * page},
		{page, 2*page - 1, 0, 0},
		{1, 2*page - 1, 0, 0},
		{page + 1, page + 5, 0, 0},
		{page, page, 0, 0},
		{7 * page, 8 * page, 7 * page, 8 * page},
	} {
		for i := range buf {
			buf[i] = byte(1 + i%255)
		}
		want := bytes.Clone(buf)
		if runtime.GOOS == "linux" {
			clear(want[c.gone:c.goneTo])
		}
		DiscardPages(buf[c.from:c.to])
		if runtime.GOOS == "linux" && !bytes.Equal(buf, want) {
			t.Errorf("%d to %d: other bytes are gone than %d to %d", c.from, c.to, c.gone, c.goneTo)
		}
		if in := WholePages(buf[c.from:c.to]); len(in) != c.goneTo-c.gone || len(in) > 0 && &in[0] != &buf[c.gone] {
			t.Errorf("%d to %d: %d bytes are whole pages", c.from, c.to, len(in))
		}
	}
	DiscardPages(nil)
}
