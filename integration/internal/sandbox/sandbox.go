// Package sandbox runs the tests of a package in namespaces of their own, for mounts and the network.
// Mounts, interfaces and rules of the tests end with the process, however it ends.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside is an environment variable that marks the process in the namespaces.
const inside = "LWIO_SANDBOX"

// Inside reports whether this process has namespaces of its own.
func Inside() bool { return os.Getenv(inside) != "" }

// Run calls run in a copy of this process that has namespaces of its own, with a loopback interface, and
// returns its exit status. Without the right to make namespaces it calls run in this process, and
// Inside is false. TestMain calls it.
func Run(run func() int) int {
	if Inside() {
		if err := settle(); err != nil {
			fmt.Fprintln(os.Stderr, "sandbox:", err)
			return 1
		}
		return run()
	}
	runtime.LockOSThread() // the copy dies with the thread that began it
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if errors.Is(err, os.ErrPermission) {
		return run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	return 0
}

// settle makes the namespaces usable: mounts do not reach other namespaces, and the loopback is up.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
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
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return fmt.Errorf("flags of lo: %w", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	return nil
}
