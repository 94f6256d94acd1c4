//go:build unix

// Package descriptors tells how many files and sockets a process may have open.
package descriptors

import (
	"math"

	"golang.org/x/sys/unix"
)

// Limit is the number of descriptors that the process may have, at least 1, or 0 if
// that is unknown. The Go runtime has raised it as far as the system lets it.
func Limit() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(max(l.Cur, 1), math.MaxInt32))
}
