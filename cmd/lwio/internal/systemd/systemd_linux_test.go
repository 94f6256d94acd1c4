package systemd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// environment returns an environment for FromEnvironment and Inherit.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if value, ok := strings.CutPrefix(p, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// Each notification is one message with the assignments that the supervisor expects.
func TestEachNotificationIsOneMessage(t *testing.T) {
	for _, abstract := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "notify")
		if abstract {
			name = "@" + strings.TrimPrefix(name, "/")
		}
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := FromEnvironment(environment("NOTIFY_SOCKET=" + name))
		if !s.Present() {
			t.Fatal("no supervisor")
		}
		f, err := os.Create(filepath.Join(t.TempDir(), "stored"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, x := range []struct {
			send  func() error
			want  string
			files int
		}{
			{s.Ready, "READY=1", 0},
			{s.Stopping, "STOPPING=1", 0},
			{s.Reloading, "RELOADING=1\nMONOTONIC_USEC=", 0},
			{func() error { return s.Store("one", f) }, "FDSTORE=1\nFDNAME=one", 1},
			{func() error { return s.Unstore("one") }, "FDSTOREREMOVE=1\nFDNAME=one", 0},
		} {
			if err := x.send(); err != nil {
				t.Fatal(err)
			}
			text, rights := make([]byte, 1000), make([]byte, 1000)
			n, oobn, _, _, err := l.ReadMsgUnix(text, rights)
			if err != nil || !strings.HasPrefix(string(text[:n]), x.want) {
				t.Errorf("%q, %v, want %q", text[:n], err, x.want)
			}
			if files := closeRights(t, rights[:oobn]); files != x.files {
				t.Errorf("%s with %d descriptors", x.want, files)
			}
		}
	}
}

// closeRights closes the descriptors of a control message, and returns their number.
func closeRights(t *testing.T, rights []byte) (n int) {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			unix.Close(fd)
			n++
		}
	}
	return n
}

// Succeeded returns after the supervisor has taken all notifications.
func TestSucceededWaitsForSupervisor(t *testing.T) {
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := FromEnvironment(environment("NOTIFY_SOCKET=" + l.LocalAddr().String()))
	done := make(chan error, 1)
	go func() { done <- s.Succeeded(17) }()
	text, rights := make([]byte, 1000), make([]byte, 1000)
	n, _, _, _, err := l.ReadMsgUnix(text, rights)
	if err != nil || string(text[:n]) != "READY=1\nMAINPID=17" {
		t.Errorf("%q, %v", text[:n], err)
	}
	n, oobn, _, _, err := l.ReadMsgUnix(text, rights)
	if err != nil || string(text[:n]) != "BARRIER=1" {
		t.Errorf("%q, %v", text[:n], err)
	}
	select {
	case err := <-done:
		t.Errorf("it has not waited: %v", err)
	default:
	}
	if n := closeRights(t, rights[:oobn]); n != 1 {
		t.Errorf("%d descriptors", n)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Without a supervisor nothing is sent, and a supervisor that is gone is an error.
func TestNoSupervisor(t *testing.T) {
	s := FromEnvironment(environment())
	if err := s.Succeeded(1); s.Present() || err != nil {
		t.Error(err)
	}
	gone := FromEnvironment(environment("NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "none")))
	if err := gone.Ready(); err == nil {
		t.Error("no error")
	}
}

// A descriptor that is sent stays non-blocking.
func TestSendKeepsMode(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "end")
		nc, err := net.FileConn(f)
		if f.Close(); err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		ends[i] = nc.(*net.UnixConn)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := Send(ends[0], []byte("text"), []*os.File{r}); err != nil {
		t.Fatal(err)
	}
	raw, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("flags %#x, %v", flags, err)
		}
	}); err != nil {
		t.Error(err)
	}
	text, rights := make([]byte, 100), make([]byte, 100)
	n, oobn, _, _, err := ends[1].ReadMsgUnix(text, rights)
	if err != nil || string(text[:n]) != "text" || closeRights(t, rights[:oobn]) != 1 {
		t.Errorf("%q, %v", text[:n], err)
	}
}

// A malformed environment is an error, and descriptors for another process are left alone.
func TestInheritTakesOwnDescriptorsOnly(t *testing.T) {
	for _, x := range []struct {
		env  []string
		ok   bool
		want int
	}{
		{nil, true, 0},
		{[]string{"LISTEN_FDS=2", "LISTEN_PID=8"}, true, 0},
		{[]string{"LISTEN_FDS=2"}, true, 0},
		{[]string{"LISTEN_FDS=0", "LISTEN_PID=7"}, true, 0},
		{[]string{"LISTEN_FDS=x", "LISTEN_PID=7"}, false, 0},
		{[]string{"LISTEN_FDS=-1", "LISTEN_PID=7"}, false, 0},
		{[]string{"LISTEN_FDS=99999999", "LISTEN_PID=7"}, false, 0},
		{[]string{"LISTEN_FDS=2", "LISTEN_PID=7", "LISTEN_FDNAMES=one"}, false, 0},
	} {
		all, err := Inherit(environment(x.env...), 7)
		if (err == nil) != x.ok || len(all) != x.want {
			t.Errorf("%q: %v, %v", x.env, all, err)
		}
	}
}
