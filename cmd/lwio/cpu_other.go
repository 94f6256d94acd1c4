//go:build !linux

package main

import "time"

// selfCPU is not known on this system.
func selfCPU() time.Duration { return 0 }

// processCPU is not known on this system.
func processCPU(int) time.Duration { return -1 }
