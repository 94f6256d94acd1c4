package statefile

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile locks f until it is closed.
//
// Errors: ErrInUse.
func lockFile(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed = unix.EINTR; errors.Is(failed, unix.EINTR); {
			failed = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
		}
	})
	if err == nil {
		err = failed
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// steadyTime returns the time since the start of the host, without the time for which it was suspended, in nanoseconds.
func steadyTime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every kernel has it
	return t.Nano()
}

// hostBootID returns the number of this run of the host's kernel.
func hostBootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
