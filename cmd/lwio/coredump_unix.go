//go:build unix && !linux

package main

import "syscall"

// forbidCoreDumps keeps the memory of this process, which has passwords and keys, out of core dumps.
func forbidCoreDumps() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
