package rsock

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/test/skip"
)

// TestWatchAddressesNotifies brings an interface up in a network namespace of its own.
func TestWatchAddressesNotifies(t *testing.T) {
	done := make(chan error, 1)
	go func() { // on a thread of its own; the thread and the namespace end with the goroutine
		runtime.LockOSThread()
		done <- bringUp(t)
	}()
	switch err := <-done; {
	case errors.Is(err, unix.EPERM):
		skip.Test(t, "no right to make a network namespace", err)
	case err != nil:
		t.Error(err)
	}
}

// bringUp makes a network namespace for the thread. It checks that watchAddresses notifies
// when the loopback interface comes up and gets its addresses.
func bringUp(t *testing.T) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	changed, stop, err := watchAddresses()
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-changed:
		t.Error("a notification came before any change")
	default:
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	<-changed
	return nil
}
