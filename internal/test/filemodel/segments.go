package filemodel

import "pgregory.net/rapid"

// Segments cuts p into the segments of a vectored call, of one size or of any.
func Segments(rt *rapid.T, p []byte) (list [][]byte) {
	sizes := rapid.SampledFrom([]int{512, 4096, 8192, 65536})
	if rapid.Bool().Draw(rt, "any sizes") {
		sizes = rapid.IntRange(0, 70_000)
	}
	n := sizes.Draw(rt, "segment")
	for len(p) > 0 && len(list) < 40 {
		list, p = append(list, p[:min(n, len(p))]), p[min(n, len(p)):]
		if n%512 != 0 {
			n = sizes.Draw(rt, "segment")
		}
	}
	return append(list, p)
}
