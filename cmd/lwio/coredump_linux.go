package main

import "golang.org/x/sys/unix"

// forbidCoreDumps keeps the memory of this process, which has passwords and keys, out of core dumps. It
// also keeps other processes of the same user from attaching to it; root can.
func forbidCoreDumps() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
