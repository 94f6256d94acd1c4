package rsock

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watchAddresses notifies of changes of the host's interfaces and addresses, until stop is
// called. After one or more changes the channel has an element. It watches the network
// namespace of the caller's thread.
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
	notify := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { readChanges(f, notify) })
	return notify, func() { f.Close(); wg.Wait() }, nil
}

// readChanges notifies of the messages of the system until the socket is closed. The content
// of the messages does not matter. Messages that the system drops do not matter either.
func readChanges(f *os.File, notify chan<- struct{}) {
	buf := make([]byte, os.Getpagesize())
	for {
		if _, err := f.Read(buf); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		select {
		case notify <- struct{}{}:
		default:
		}
	}
}
