//go:build unix

package host

import (
	"syscall"
	"time"
)

// CPUTime is the processor time that this process has used so far, in user code and in the
// kernel; 0 where the system does not report it.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
