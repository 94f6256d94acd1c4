package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// barrierTime bounds the wait for the supervisor to notice a notification.
const barrierTime = 5 * time.Second

// notify sends assignments, one a line, with descriptors.
func (s *Supervisor) notify(text string, files ...*os.File) error {
	if s.socket == "" {
		return nil
	}
	if err := s.send(text, files); err != nil {
		return fmt.Errorf("notify the supervisor: %w", err)
	}
	return nil
}

func (s *Supervisor) send(text string, files []*os.File) error {
	nc, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer nc.Close()
	return Send(nc, []byte(text), files)
}

// Send sends one message with descriptors. The descriptors stay open, and non-blocking ones non-blocking.
func Send(nc *net.UnixConn, text []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		raw, err := f.SyscallConn() // Fd would make the file blocking, for its listener too
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return err
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	// A connected socket takes no address: nil.
	raw, err := nc.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(err, os.NewSyscallError("sendmsg", sent))
}

// barrier waits until the supervisor has handled the notifications of before.
func (s *Supervisor) barrier() error {
	if s.socket == "" {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	err = s.notify("BARRIER=1", w)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := r.SetReadDeadline(time.Now().Add(barrierTime)); err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("notify the supervisor: %w", err)
	}
	return nil // the supervisor has closed the other end
}

// inheritedFile is a descriptor of this process, which its children do not get.
func inheritedFile(fd int) *os.File {
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "inherited")
}

// monotonic is the time of CLOCK_MONOTONIC.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
