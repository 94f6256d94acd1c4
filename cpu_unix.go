//go:build unix

package lwio

import (
	"syscall"
	"time"
)

// processTime is the time that this process has spent on processors.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
