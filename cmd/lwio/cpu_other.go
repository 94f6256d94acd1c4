//go:build !linux

package main

import "time"

// processCPU is not known on this system.
func processCPU(int) time.Duration { return -1 }
