package host

import (
	"math"

	"golang.org/x/sys/unix"
)

// TotalMemory is the memory of the host in bytes, or math.MaxInt64 if it is unknown.
func TotalMemory() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit))
}
