//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Self is the time that this process has spent so far, in user code and in the kernel; 0
// where the system does not tell.
func Self() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
