package main

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// newEventfd returns a descriptor that is readable while it is signaled.
func newEventfd() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) }

// signalEventfd makes fd readable. It cannot fail: the counter is far from its limit.
func signalEventfd(fd int) {
	_, _ = unix.Write(fd, binary.NativeEndian.AppendUint64(nil, 1))
}

// clearEventfd makes fd not readable.
func clearEventfd(fd int) { _, _ = unix.Read(fd, make([]byte, 8)) }

func closeEventfd(fd int) error { return unix.Close(fd) }
