//go:build unix

package host

import (
	"math"

	"golang.org/x/sys/unix"
)

// descriptorLimit is the number of descriptors that the process may have, at least 1, or 0 if
// it is unknown. The Go runtime has raised it to the hard limit.
func descriptorLimit() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(max(l.Cur, 1), math.MaxInt32))
}
