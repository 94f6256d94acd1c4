package shm

import (
	"math"

	"golang.org/x/sys/unix"
)

// hostMemory is how much memory the host has, in bytes.
func hostMemory() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit))
}
