package posix

import (
	"bytes"
	"testing"
)

// What is left after a write that was short.
func TestBehind(t *testing.T) {
	for n, want := range []string{"abbccc", "bbccc", "bccc", "ccc", "cc", "c", ""} {
		pieces := [][]byte{[]byte("a"), []byte("bb"), []byte("ccc")}
		if got := bytes.Join(behind(pieces, n), nil); string(got) != want {
			t.Errorf("behind %d bytes is %q, want %q", n, got, want)
		}
	}
}
