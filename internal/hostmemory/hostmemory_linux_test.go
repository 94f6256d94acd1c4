package hostmemory

import (
	"math"
	"testing"
)

func TestMemory(t *testing.T) {
	if n := Total(); n < 1<<24 || n == math.MaxInt64 {
		t.Errorf("a host with %d bytes", n)
	}
}
