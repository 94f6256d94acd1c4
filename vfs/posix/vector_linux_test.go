package posix

import (
	"bytes"
	"testing"
)

// A short write continues with the bytes that it has not written.
func TestAfterCutsWrittenBytes(t *testing.T) {
	for n, want := range []string{"abbccc", "bbccc", "bccc", "ccc", "cc", "c", ""} {
		pieces := [][]byte{[]byte("a"), []byte("bb"), []byte("ccc")}
		if got := bytes.Join(after(pieces, n), nil); string(got) != want {
			t.Errorf("after %d bytes: %q, want %q", n, got, want)
		}
	}
}
