package segments

import (
	"bytes"
	"slices"
	"testing"
)

// of are segments of these sizes.
func of(sizes ...int) (segs [][]byte) {
	for _, n := range sizes {
		segs = append(segs, make([]byte, n))
	}
	return segs
}

func TestSizeSumsSegments(t *testing.T) {
	if n := Size(of(1, 0, 512, 3)); n != 516 || Size(nil) != 0 {
		t.Error(n, Size(nil))
	}
}

// The segments of a part are those bytes, and no others.
func TestPartHasExactBytes(t *testing.T) {
	all := []byte("abcdefghij")
	segs := [][]byte{all[:1], nil, all[1:4], all[4:]}
	for at := range all {
		for n := range len(all) - at + 1 {
			list := Part(segs, at, n)
			if got := bytes.Join(list, nil); !bytes.Equal(got, all[at:at+n]) || slices.ContainsFunc(list, func(s []byte) bool { return len(s) == 0 }) {
				t.Errorf("%d bytes at %d: %q", n, at, list)
			}
		}
	}
}

// Source: [OP-83]
func TestPageDividesSegments(t *testing.T) {
	for _, tt := range []struct {
		want  int
		sizes []int
	}{
		{maxPage, []int{1}}, {maxPage, []int{0, 0}}, {512, []int{512, 512}}, {512, []int{4096, 512, 7}}, {4096, []int{4096, 12288, 512}},
		{maxPage, []int{1 << 20, 64 << 10, 3}}, {0, []int{256, 512}}, {0, []int{4096, 4097, 1}}, {8192, []int{0, 8192, 8192}},
	} {
		if got := Page(of(tt.sizes...)); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.sizes, got, tt.want)
		}
	}
}
