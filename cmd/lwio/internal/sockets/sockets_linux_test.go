package sockets

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// pass passes the descriptors of a set on to another one, as to another process.
func pass(t *testing.T, from *Set) *Set {
	t.Helper()
	to := new(Set)
	t.Cleanup(to.Close)
	for _, h := range from.Held() {
		raw, err := h.File.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			dup, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
			}
			to.Inherit(h.Name, os.NewFile(uintptr(dup), h.Name))
		}); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// connects reports that a connection to a listener arrives.
func connects(t *testing.T, l net.Listener, dial net.Conn) {
	t.Helper()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if nc.RemoteAddr().String() != dial.LocalAddr().String() {
		t.Errorf("a connection of %v, not %v", nc.RemoteAddr(), dial.LocalAddr())
	}
	nc.Close()
	dial.Close()
}

// A connection that is made while no process listens waits for the next one.
func TestConnectionWaitsForNextProcess(t *testing.T) {
	first := new(Set)
	defer first.Close()
	l, err := first.TCP(t.Context(), "smb", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	second := pass(t, first)
	l.Close()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	next, err := second.TCP(t.Context(), "smb", "127.0.0.1:0")
	if err != nil || next.Addr().String() != addr {
		t.Fatalf("%v, %v", next, err)
	}
	connects(t, next, nc)
	next.Close()
	if made := second.Made(); len(made) != 0 {
		t.Errorf("made: %v", made)
	}
	if made := first.Made(); len(made) != 1 || len(first.Made()) != 0 {
		t.Errorf("made by the first: %v", made)
	}
	// The same process again, as after a hand-over that failed.
	second.Reuse()
	again, err := second.TCP(t.Context(), "smb", "127.0.0.1:0")
	if err != nil || again.Addr().String() != addr {
		t.Fatalf("%v, %v", again, err)
	}
	again.Close()
}

// A socket of another address or purpose is not used, and is dropped. One of the configuration of a supervisor
// goes by its address.
func TestOtherSocketsAreDropped(t *testing.T) {
	first := new(Set)
	defer first.Close()
	l, err := first.TCP(t.Context(), "smb", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	named := pass(t, first)
	other, err := named.TCP(t.Context(), "metrics", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Addr().String() == addr {
		t.Error("the socket of another purpose is used")
	}
	if names := named.DropUnused(); len(names) != 1 || names[0] != "lwio-smb-127.0.0.1-0" {
		t.Errorf("dropped: %q", names)
	}
	if held := named.Held(); len(held) != 1 || held[0].Name != "lwio-metrics-127.0.0.1-0" {
		t.Errorf("held: %v", held)
	}
	for _, want := range []string{addr, "localhost:" + addr[len("127.0.0.1:"):]} {
		foreign := pass(t, first)
		foreign.Held()[0].Name = "lwio.socket"
		l, err := foreign.TCP(t.Context(), "smb", want)
		if err != nil || l.Addr().String() != addr {
			t.Fatalf("%s: %v, %v", want, l, err)
		}
		l.Close()
		if h := foreign.Held()[0]; h.Own() {
			t.Error("the socket of the supervisor counts as the server's")
		}
	}
}

// A Unix socket goes on under its name, and its peers see the process that serves it now.
func TestUnixSocketGoesToNextProcess(t *testing.T) {
	bind := func() (*net.UnixListener, error) {
		return net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@lwio-test-" + t.Name(), Net: "unixpacket"})
	}
	first := new(Set)
	defer first.Close()
	l, err := first.Unix("shm", bind)
	if err != nil {
		t.Fatal(err)
	}
	second := pass(t, first)
	l.Close()
	next, err := second.Unix("shm", bind) // a second bind would fail
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	nc, err := net.DialUnix("unixpacket", nil, next.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	connects(t, next, nc)
}

// A secret is made once, and the next process has it. It cannot be changed.
func TestSecretGoesToNextProcess(t *testing.T) {
	first := new(Set)
	defer first.Close()
	n := 0
	generate := func() string { n++; return "secret" }
	for range 2 {
		if got, err := first.Secret("credential", generate); got != "secret" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	second := pass(t, first)
	if got, err := second.Secret("credential", generate); got != "secret" || err != nil || n != 1 {
		t.Errorf("%q, %v, made %d times", got, err, n)
	}
	if _, err := second.Held()[0].File.WriteAt([]byte("x"), 0); err == nil {
		t.Error("the secret can be changed")
	}
	if names := second.DropUnused(); len(names) != 0 {
		t.Errorf("dropped: %q", names)
	}
}
