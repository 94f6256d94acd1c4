package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lwio"
)

// stateServer is a process of 'lwio serve --state'.
type stateServer struct {
	t     *testing.T
	dir   string // of the share, the state and the users
	port  string
	flags []string // further ones
	cmd   *exec.Cmd
}

// newStateServer makes the directories of a server, and starts it. It ends with the test.
func newStateServer(t *testing.T, flags ...string) (s *stateServer, url string) {
	t.Helper()
	s = &stateServer{t: t, dir: t.TempDir(), port: "0", flags: flags}
	if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeSecret(t, "secret\n", s.dir, "users")
	url = s.start()
	t.Cleanup(s.kill)
	return s, url
}

// start starts the process and returns the URL of its share.
func (s *stateServer) start() string {
	s.t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:" + s.port, "--state", filepath.Join(s.dir, "state"),
		"--user", "alice", "--password-file", filepath.Join(s.dir, "users")}, s.flags...)
	s.cmd = exec.Command(os.Args[0], append(args, "data="+filepath.Join(s.dir, "data"))...)
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), asCommand+"=1"), s.t.Output()
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("serve printed nothing: %v", err)
	}
	url := strings.Replace(strings.TrimSpace(line), "alice@", "alice:secret@", 1)
	at := strings.TrimPrefix(url, "lwio://alice:secret@")
	if _, s.port, err = net.SplitHostPort(strings.TrimSuffix(at, "/data")); err != nil {
		s.t.Fatal(err)
	}
	return url
}

// kill kills the process and waits for its end.
func (s *stateServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // which reports the kill
}

// A program goes on with its files and locks when 'lwio serve --state' is killed and started again.
func TestProgramGoesOnAfterKillOfServer(t *testing.T) {
	s, url := newStateServer(t)
	dial := func() *lwio.Client {
		c, err := lwio.Dial(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	open := func(c *lwio.Client) *lwio.File {
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open(dial())
	if err := f.TryLock(t.Context(), lwio.Range{Off: 0, Len: 10}, lwio.LockExclusive); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := f.WriteAt([]byte{byte(i)}, int64(i)); err != nil {
			t.Fatal(err)
		}
		s.kill()
		s.start()
		got := make([]byte, i+1)
		if _, err := f.ReadAt(got, 0); err != nil || got[i] != byte(i) {
			t.Fatalf("after restart %d: %v, %v", i, got, err)
		}
		other := open(dial())
		if err := other.TryLock(t.Context(), lwio.Range{Off: 5, Len: 1}, lwio.LockExclusive); err == nil {
			t.Fatal("another program has the lock")
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := f.Unlock(t.Context(), lwio.Range{Off: 0, Len: 10}); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
