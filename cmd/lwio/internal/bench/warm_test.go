package bench

import (
	"errors"
	"testing"
)

// A comparison of reads first reads the whole file by a target that can. A comparison of
// writes does not.
func TestCompareReadsFirst(t *testing.T) {
	for _, c := range []struct {
		pattern Pattern
		size    int64
		want    int64
	}{
		{RandRead, 3*warmChunk + 512, 3*warmChunk + 512},
		{SeqRead, 512, 512},
		{RandWrite, warmChunk, 0},
	} {
		j := job()
		j.Pattern, j.FileSize, j.Verify = c.pattern, c.size, false
		bad, good := &fake{name: "bad", open: errors.New("no way")}, &fake{name: "good"}
		first := int64(-1)
		_, err := Compare(t.Context(), []Target{bad, good}, j, 1, noCPU, func(Target) {
			if first < 0 {
				first = good.read
			}
		})
		if err != nil || first != c.want || good.conns.Load() != 0 {
			t.Errorf("%s of %d bytes: %d were read before, want %d; %d connections open, %v", c.pattern, c.size, first, c.want, good.conns.Load(), err)
		}
	}
}
