package host

import (
	"os"
	"testing"
)

func TestProcessCPUIsTheTimeOfThisProcess(t *testing.T) {
	least := CPUTime() / 2 // the two clocks have different resolutions
	if got := ProcessCPU(os.Getpid()); got < least {
		t.Errorf("%v, want at least %v", got, least)
	}
}

func TestProcessCPUOfNoProcessIsNegative(t *testing.T) {
	const none = 1 << 23 // above the largest process id
	if got := ProcessCPU(none); got >= 0 {
		t.Errorf("%v, want a negative time", got)
	}
}
