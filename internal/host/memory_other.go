//go:build !linux

package host

import "math"

// TotalMemory is math.MaxInt64: it is unknown.
func TotalMemory() int64 { return math.MaxInt64 }
