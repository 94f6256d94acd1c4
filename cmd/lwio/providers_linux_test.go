package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lwio/cmd/lwio/internal/config"
	"lwio/internal/test/skip"
)

func TestUIDsAllowTheListedUsers(t *testing.T) {
	self := uint32(os.Geteuid())
	other := self + 1000
	for text, c := range map[string]struct{ others, more, bad bool }{
		"":                                {},
		"any":                             {others: true, more: true},
		strconv.Itoa(int(other)):          {others: true},
		"7," + strconv.Itoa(int(other)):   {others: true},
		"alice":                           {bad: true},
		"-1":                              {bad: true},
		strconv.Itoa(int(other)) + ",":    {bad: true},
		"4294967296":                      {bad: true},
		"any," + strconv.Itoa(int(other)): {bad: true},
	} {
		var u config.UIDs
		if err := u.Set(text); (err != nil) != c.bad {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if c.bad {
			continue
		}
		if !u.Allows(0) || !u.Allows(self) || u.Allows(other) != c.others || u.Allows(other+1) != c.more || u.String() != text {
			t.Errorf("%q is read as %+v", text, u)
		}
	}
}

// Both sides accept the flag, and shared memory still works for their own user.
func TestAllowUIDOnBothSidesSharesMemory(t *testing.T) {
	s := startServer(t, t.TempDir(), "--allow-uid", "4000000000")
	r := run(t, exitOK, "ls", "--allow-uid", "any", "-v", s.url+"?provider=shm")
	if !strings.Contains(r.err, "provider=shm") {
		t.Errorf("log: %s", r.err)
	}
	run(t, exitUsage, "ls", "--allow-uid", "bob", s.url)
}

// The doctor names --allow-uid for the server of another user: root does not share memory with
// that by default.
func TestDoctorNamesAllowUIDForAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Test(t, "only root can start a server as another user")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	url := serveAs(t, nobody, dir)
	r := run(t, exitOK, "doctor", url)
	if !strings.Contains(r.out, "user is not allowed: 65534") || !strings.Contains(r.out, "--allow-uid here") || strings.Contains(r.out, "shm: shm") {
		t.Errorf("doctor: %s", r.out)
	}
	if r = run(t, exitOK, "doctor", "--allow-uid", "65534", url); !strings.HasPrefix(r.out, "shm    in use") {
		t.Errorf("doctor, allowed: %s", r.out)
	}
}

// serveAs starts a server process as another user and returns its URL.
func serveAs(t *testing.T, uid uint32, dir string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "serve", "--listen", "127.0.0.1:0", dir)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server says nothing: %v", err)
	}
	return strings.TrimSpace(line)
}
