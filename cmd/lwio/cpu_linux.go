package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the CPU time that a process has used, or negative if that is unknown.
func processCPU(pid int) time.Duration {
	var t unix.Timespec
	// The id of another process's clock, as clock_getcpuclockid(3) makes it.
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return -1
	}
	return time.Duration(t.Nano())
}
