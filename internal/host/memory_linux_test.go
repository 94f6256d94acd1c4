package host

import (
	"math"
	"testing"
)

func TestTotalMemoryIsKnown(t *testing.T) {
	if n := TotalMemory(); n < 1<<24 || n == math.MaxInt64 {
		t.Errorf("a host with %d bytes", n)
	}
}
