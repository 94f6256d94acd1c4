//go:build linux

package shm

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// lockedFile is a file with a lock of this process. The kernel drops the lock when any
// descriptor of the file is closed in this process, but not when a descriptor is dropped
// that was never installed.
func lockedFile(t *testing.T) (fd int, locked func() bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "locked")
	open := func() *os.File {
		f := must[*os.File](t)(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))
		t.Cleanup(func() { f.Close() })
		return f
	}
	f, other := open(), open()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return int(f.Fd()), func() bool {
		probe := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		if err := unix.FcntlFlock(other.Fd(), unix.F_OFD_GETLK, &probe); err != nil {
			t.Fatal(err)
		}
		return probe.Type != unix.F_UNLCK
	}
}

// A message that carries no descriptors installs none in this process, so no file system is
// asked to close one.
func TestDescriptorsThatAreNotDueAreNotInstalled(t *testing.T) {
	t.Run("request", func(t *testing.T) {
		fd, locked := lockedFile(t)
		passive := newSide(t, nil, 1<<16)
		_, addr := passive.listen(t)
		nc := must[*net.UnixConn](t)(openSocket(t.Context(), "", addr.Name))
		defer nc.Close()
		if err := sendHello(nc, &hello{kind: helloReady, ring: ring.MinSize}, fd, fd); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Read(make([]byte, 1)); err == nil { // until the listener has closed it
			t.Error("the request was answered")
		}
		if !locked() {
			t.Error("a descriptor with a request was installed")
		}
	})
	t.Run("excess", func(t *testing.T) {
		fd, locked := lockedFile(t)
		fds := must[[2]int](t)(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))
		here, there := unixConn(t, fds[0]), unixConn(t, fds[1])
		memory := must[int](t)(unix.MemfdCreate("memory", unix.MFD_CLOEXEC))
		defer unix.Close(memory)
		h := hello{kind: helloReady, ring: ring.MinSize}
		if err := sendHello(here, &h, memory, memory, fd, fd); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := new(foreign).receiveHello(there, 0, readyFDs); err == nil {
			t.Error("unsealed memory was accepted")
		}
		var r noticeReader
		r.init()
		raw, err := there.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for due := range 2 {
			passed := []int{memory, fd}[1-due:]
			if _, _, err := here.WriteMsgUnix([]byte{noticeWake}, unix.UnixRights(passed...), nil); err != nil {
				t.Fatal(err)
			}
			_, got, err := r.read(raw, due)
			if (err != nil) != (due == 1) || len(got) != due {
				t.Errorf("%d of %d descriptors, %v", len(got), len(passed), err)
			}
			ring.CloseAll(got)
		}
		if !locked() {
			t.Error("a descriptor that is not due was installed")
		}
	})
}

func unixConn(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c := must[net.Conn](t)(net.FileConn(f))
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}

// slowFile returns a descriptor whose close waits: a TCP socket that lingers, with data that
// its peer does not read. finish ends the wait.
func slowFile(t *testing.T) (fd int, finish func()) {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	c := must[net.Conn](t)(net.Dial("tcp", l.Addr().String())).(*net.TCPConn)
	defer c.Close()
	peer := must[net.Conn](t)(l.Accept())
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	for {
		if _, err := c.Write(make([]byte, 1<<16)); err != nil {
			break
		}
	}
	_ = c.SetLinger(60)
	f := must[*os.File](t)(c.File())
	defer f.Close()
	fd = must[int](t)(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0))
	_ = c.SetLinger(60)
	return fd, func() { peer.(*net.TCPConn).SetLinger(0); peer.Close() }
}

// Descriptors whose close does not end take one goroutine of their user, and then no further
// descriptor of the user is received. Another user is not affected.
func TestSlowClosesAreBounded(t *testing.T) {
	const hostile, honest = 1000, 1001
	var f foreign
	for i := range maxForeignOfUser {
		if f.due(hostile, 1) != 1 {
			t.Fatalf("after %d descriptors none is received", i)
		}
		fd, finish := slowFile(t)
		defer finish()
		f.discard(hostile, []int{fd})
	}
	if f.due(hostile, 4) != 0 || f.due(honest, 4) != 4 {
		t.Errorf("%d descriptors of the hostile user and %d of the honest user are received", f.due(hostile, 4), f.due(honest, 4))
	}
	if n := closers(); n != 1 {
		t.Errorf("%d goroutines close", n)
	}
	t.Cleanup(func() { // after the peers have reset their connections
		eventually(t, "all descriptors are closed", func() bool { return f.total.Load() == 0 && closers() == 0 })
		if f.due(hostile, 4) != 4 {
			t.Error("no descriptor is received after all are closed")
		}
	})
}

// closers returns the number of goroutines that close foreign descriptors.
func closers() (n int) {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 2)
	return strings.Count(text.String(), "(*foreign).closeAll(")
}
