package main

import (
	"strings"

	"lwio/cmd/lwio/internal/bench"
)

// residentMemory is what vfs.Config takes for the value of --resident, which may be empty
// for the default.
func residentMemory(size string) (int64, error) {
	switch {
	case size == "":
		return 0, nil
	case strings.Trim(size, "0") == "":
		return -1, nil
	}
	n, err := bench.ParseSize(size)
	if err != nil {
		return 0, usagef("--resident: %w", err)
	}
	return n, nil
}
