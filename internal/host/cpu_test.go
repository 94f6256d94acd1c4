//go:build unix

package host

import "testing"

func TestCPUTimeGrows(t *testing.T) {
	first := CPUTime()
	last := first
	for x := uint64(1); last == first; x = x*x + 1 {
		now := CPUTime()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
}
