package hostmemory

import (
	"math"

	"golang.org/x/sys/unix"
)

// Total is how much memory the host has, in bytes, or math.MaxInt64 if it does not say.
func Total() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit))
}
