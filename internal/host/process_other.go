//go:build !linux

package host

import "time"

// ProcessCPU is negative: this system does not report the time of another process.
func ProcessCPU(int) time.Duration { return -1 }
