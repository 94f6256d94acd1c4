//go:build unix

package cputime

import "testing"

// What the process does is seen, and never taken back.
func TestSelf(t *testing.T) {
	first := Self()
	last := first
	for x := uint64(1); last == first; x = x*x + 1 {
		now := Self()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
}
