//go:build linux

package shm

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma/internal/softrdma"
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
		here, there := socketPair(t)
		if err := sendHello(here, &hello{kind: helloReady, ring: ring.MinSize}, fd, fd); err != nil {
			t.Fatal(err)
		}
		if _, _, err := New(nil).readRequest(there); !errors.Is(err, errHello) {
			t.Errorf("a request with descriptors: %v", err)
		}
		if !locked() {
			t.Error("a descriptor with a request was installed")
		}
	})
	t.Run("excess", func(t *testing.T) {
		fd, locked := lockedFile(t)
		here, there := socketPair(t)
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

// The kernel refuses descriptors that a peer sends before its user is checked, if it can.
func TestDescriptorsBeforeUserIsCheckedAreRefused(t *testing.T) {
	_, addr := newSide(t, nil, 1<<16).listen(t)
	active := must[*net.UnixConn](t)(openSocket(t.Context(), "", addr.Name))
	defer active.Close()
	fd, _ := lockedFile(t)
	var want error
	if err := acceptRights(active); err != nil {
		t.Fatal(err)
	}
	raw := must[syscall.RawConn](t)(active.SyscallConn())
	if err := raw.Control(func(s uintptr) {
		if on, err := unix.GetsockoptInt(int(s), unix.SOL_SOCKET, 83); err == nil { // SO_PASSRIGHTS
			want = unix.EPERM
			if on != 1 {
				t.Error("descriptors stay refused")
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := sendHello(active, &hello{kind: helloRequest}, fd); !errors.Is(err, want) {
		t.Errorf("a descriptor to a listener: %v", err)
	}
	plain := must[*net.UnixListener](t)(net.ListenUnix("unixpacket", sockAddr(randomName())))
	defer plain.Close()
	active = must[*net.UnixConn](t)(openSocket(t.Context(), "", nameOf(plain.Addr())))
	defer active.Close()
	passive := must[*net.UnixConn](t)(plain.AcceptUnix())
	defer passive.Close()
	if err := sendHello(passive, &hello{kind: helloAccept, ring: ring.MinSize}, fd); !errors.Is(err, want) {
		t.Errorf("a descriptor to a dialer: %v", err)
	}
	d, fds, err := ring.NewDoorbell()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer ring.CloseAll(fds)
	for _, end := range fds {
		if err := unix.Sendmsg(end, []byte{1}, unix.UnixRights(fd), nil, 0); !errors.Is(err, want) {
			t.Errorf("a descriptor to a doorbell: %v", err)
		}
	}
}

// socketPair returns both ends of a socket.
func socketPair(t *testing.T) (here, there *net.UnixConn) {
	t.Helper()
	fds := must[[2]int](t)(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))
	return unixConn(t, fds[0]), unixConn(t, fds[1])
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
	// The peer's system takes much less than the own system does until it is full.
	_ = peer.(*net.TCPConn).SetReadBuffer(1)
	raw := must[syscall.RawConn](t)(c.SyscallConn())
	if err := raw.Write(func(s uintptr) bool {
		for {
			if _, err := unix.Write(int(s), make([]byte, 1<<16)); err != nil {
				return true
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	_ = c.SetLinger(60)
	f := must[*os.File](t)(c.File())
	defer f.Close()
	fd = must[int](t)(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0))
	_ = c.SetLinger(60)
	return fd, func() { peer.(*net.TCPConn).SetLinger(0); peer.Close() }
}

// mustEnd fails the test if do waits for descriptors. finish ends the wait.
func mustEnd(t *testing.T, what string, do, finish func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(patience):
		finish()
		<-done
		t.Fatalf("%s waits for descriptors", what)
	}
}

// Descriptors whose close does not end take one goroutine of their user, and then no further
// descriptor of the user is received. Another user is not affected.
func TestSlowClosesAreBounded(t *testing.T) {
	const hostile, honest = 1000, 1001
	p := New(&Config{AllowUID: func(uint32) bool { return true }})
	f := &p.foreign
	for i := range maxForeignOfUser {
		if f.due(hostile, 1) != 1 {
			t.Fatalf("after %d descriptors none is received", i)
		}
		fd, finish := slowFile(t)
		defer finish()
		mustEnd(t, "the receiver", func() { f.discard(hostile, []int{fd}) }, finish)
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

// A handshake whose descriptors keep a thread in the kernel ends at its time limit. So does the
// close of a socket with such descriptors. A user whose descriptors keep too many threads gets no
// connection until they are closed.
func TestHandshakeDoesNotWaitForDescriptors(t *testing.T) {
	const limit = 2 * time.Second // in which the calls begin
	p := New(patient(&Config{ReadyTimeout: limit}))
	a := newSideOn(t, p, 1<<16).a.(*adapter)
	uid := uint32(unix.Getuid())
	var finish []func()
	hostile := func(more ...int) *net.UnixConn {
		here, there := socketPair(t)
		fds, own, err := ring.NewSegment(ring.MinSize)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Unmap()
		defer fds.Close()
		fd, end := slowFile(t)
		finish = append(finish, end)
		if err := sendHello(here, &hello{kind: helloReady, ring: ring.MinSize}, append(append(fds[:], more...), fd)...); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd) // the message has the last reference
		return there
	}
	finishAll := func() {
		for _, end := range finish {
			end()
		}
	}
	mustEnd(t, "an accept", func() {
		r := request{a: a, nc: hostile(), uid: uid}
		if _, err := r.confirmation(t.Context()); !errors.Is(err, softrdma.ErrNotReady) {
			t.Errorf("accept: %v", err)
		}
		p.foreign.hangUp(uid, r.nc)
	}, finishAll)
	mustEnd(t, "a dial", func() {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		d := acceptance{a: a, nc: hostile(0, 1), uid: uid}
		if p.foreign.call(ctx, uid, func() { _ = d.ask(ctx, &hello{kind: helloRequest}) }, func() { d.peer.Unmap() }) {
			t.Error("the dial ended before its descriptors were closed")
		}
	}, finishAll)
	mustEnd(t, "a close", func() { p.foreign.hangUp(uid, hostile()) }, finishAll)
	if n := p.foreign.total.Load(); n != maxForeignOfUser { // the accept, its socket, the dial and the close
		t.Errorf("%d waits", n)
	}
	here, _ := socketPair(t)
	if _, err := p.checkUser(here); !errors.Is(err, errForeign) {
		t.Errorf("a further connection of the user: %v", err)
	}
	finishAll()
	eventually(t, "all calls end", func() bool { return p.foreign.total.Load() == 0 })
	if _, err := p.checkUser(here); err != nil {
		t.Error(err)
	}
}

// The end of a connection does not wait for descriptors that keep the thread of its receiver in
// the kernel.
func TestEndDoesNotWaitForDescriptors(t *testing.T) {
	r, s, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	c := s.inside()
	fd, finish := slowFile(t)
	defer finish()
	// The receiver waits after a message, so that the next one has the last reference to its
	// descriptor before it is read.
	c.sleeper.mu.Lock()
	r.say([]byte{noticeWake})
	raw := must[syscall.RawConn](t)(r.nc.SyscallConn())
	read := func() (all bool) {
		_ = raw.Control(func(s uintptr) {
			n, err := unix.IoctlGetInt(int(s), unix.TIOCOUTQ)
			all = err == nil && n == 0
		})
		return all
	}
	eventually(t, "the first message is read", read)
	r.say([]byte{noticeWake}, r.fds[0], fd)
	_ = unix.Close(fd)
	c.sleeper.mu.Unlock()
	eventually(t, "the second message is read", read)
	c.Disconnect()
	select {
	case <-c.Finished():
	case <-time.After(patience):
		t.Error("the connection does not end")
		finish()
		<-c.Finished()
	}
	if n := c.a.p.foreign.total.Load(); n == 0 {
		t.Error("the receiver's thread does not count")
	}
	finish()
	eventually(t, "the receiver ends", func() bool { return c.a.p.foreign.total.Load() == 0 })
}

// closers returns the number of goroutines that close foreign descriptors.
func closers() (n int) {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 2)
	return strings.Count(text.String(), "created by lwio/rdma/shm.(*foreign).add in")
}
