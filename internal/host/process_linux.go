package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessCPU is the processor time that a process has used, without its children; negative if
// it is unknown.
func ProcessCPU(pid int) time.Duration {
	var t unix.Timespec
	// The id of another process's clock, as clock_getcpuclockid(3) makes it.
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return -1
	}
	return time.Duration(t.Nano())
}
