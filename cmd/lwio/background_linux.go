package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// readyFD, in the environment of a process in the background, says that it reports on descriptor 3 that it is ready.
const readyFD = "LWIO_READY_FD"

// background runs the command line in another process, and returns when that process is ready, or has failed. Up to then it has
// the streams of this one, so it may ask for a password and explain a failure.
func (a *app) background() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(exe, a.args...)
	cmd.Env = append(os.Environ(), readyFD+"=3")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	if n, err := io.ReadFull(ready, make([]byte, 1)); n == 1 {
		return cmd.Process.Release()
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &ended) {
		return reported(ended.ExitCode())
	} else if err != nil {
		return err
	}
	return errors.New("the process in the background ended before it was ready")
}

// inBackground reports whether this process is one that background has started.
func (a *app) inBackground() bool { return a.env(readyFD) != "" }

// detach leaves the terminal and the working directory, and reports that the process is ready. Its standard error stays if it is
// the journal of systemd.
func (a *app) detach() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if fd == 2 && a.journal() {
			continue
		}
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return fmt.Errorf("detach: %w", err)
		}
	}
	if _, err := unix.Setsid(); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	_, err = ready.Write([]byte{1})
	return errors.Join(err, ready.Close())
}

// journal reports whether standard error is the journal, as systemd says.
func (a *app) journal() bool {
	var s unix.Stat_t
	return unix.Fstat(2, &s) == nil && a.env("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
