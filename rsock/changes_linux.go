package rsock

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watchAddresses tells of changes of the host's interfaces and addresses, until stop is
// called: after one or more of them there is something in the channel. It goes by the
// network namespace of the caller's thread.
//
// Source: [WSD §1]
func watchAddresses() (changed <-chan struct{}, stop func(), err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	groups := uint32(1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1))
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("bind", err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "netlink")
	tell := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { readChanges(f, tell) })
	return tell, func() { f.Close(); wg.Wait() }, nil
}

// readChanges tells of what comes until the socket is closed. What it is about does not
// matter, and neither does what the system has dropped as there was too much.
func readChanges(f *os.File, tell chan<- struct{}) {
	buf := make([]byte, os.Getpagesize())
	for {
		if _, err := f.Read(buf); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		select {
		case tell <- struct{}{}:
		default:
		}
	}
}
