package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lwio/internal/test/skip"
)

// mountProcess is 'lwio mount' in a process of its own.
type mountProcess struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	errs *lockedBuffer
}

// startMount mounts a share on a directory.
func startMount(t *testing.T, url, dir string, flags ...string) *mountProcess {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		skip.Test(t, "there is no FUSE")
	}
	m := &mountProcess{t, dir, exec.Command(os.Args[0], append(append([]string{"mount"}, flags...), url, dir)...), new(lockedBuffer)}
	m.cmd.Env = append(os.Environ(), asCommand+"=1")
	m.cmd.Stderr = m.errs
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m.cmd.ProcessState == nil {
			m.end(syscall.SIGKILL)
		}
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != dir {
		t.Fatalf("mount prints %q, %v\n%s", line, err, m.errs.String())
	}
	return m
}

// end signals the process and waits for it.
func (m *mountProcess) end(sig os.Signal) error {
	m.t.Helper()
	if err := m.cmd.Process.Signal(sig); err != nil {
		m.t.Fatal(err)
	}
	return m.cmd.Wait()
}

// A share is mounted again over the mount of a process that was killed. An interrupt removes the mount.
func TestMountAgainAfterDeath(t *testing.T) {
	s := startServer(t, t.TempDir())
	dir := t.TempDir()
	m := startMount(t, s.url, dir)
	write(t, []byte("content"), dir, "d", "f")
	if err := m.end(syscall.SIGKILL); err == nil {
		t.Fatal("a killed process ends in order")
	}
	if _, err := os.Stat(dir); !errors.Is(err, syscall.ENOTCONN) {
		t.Fatalf("the mount of a dead process: %v", err)
	}
	m = startMount(t, s.url, dir, "--read-only")
	wantFile(t, filepath.Join(dir, "d", "f"), []byte("content"))
	if err := os.WriteFile(filepath.Join(dir, "g"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to a mount that is read-only: %v", err)
	}
	if err := m.end(os.Interrupt); err != nil {
		t.Errorf("%v\n%s", err, m.errs.String())
	}
	wantNames(t, dir)
	wantFile(t, filepath.Join(s.dir, "d", "f"), []byte("content"))
}

// unmount removes a mount, as umount(8) does.
func unmount(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() == 0 {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
	} else if out, err := exec.Command("fusermount3", "-u", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Another program can remove the mount: the command then ends in order.
func TestMountEndsWithUnmount(t *testing.T) {
	s := startServer(t, t.TempDir())
	m := startMount(t, s.url, t.TempDir())
	unmount(t, m.dir)
	if err := m.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, m.errs.String())
	}
}

// A server that is killed, or replaced, is a pause: a writer in the mount has no error, and loses nothing.
func TestMountGoesOnThroughRestarts(t *testing.T) {
	for _, transport := range []string{"shm", "iwarp"} {
		t.Run(transport, func(t *testing.T) {
			s := newSupervisor(t, "--listen", "127.0.0.1:0")
			s.start()
			m := startMount(t, s.line()+"?provider="+transport, t.TempDir())
			f, err := os.Create(filepath.Join(m.dir, "records"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var want bytes.Buffer
			record := func() {
				t.Helper()
				for range 50 {
					line := fmt.Sprintf("record %d\n", want.Len())
					if _, err := f.WriteString(line); err != nil {
						t.Fatalf("%v\n%s", err, m.errs.String())
					}
					want.WriteString(line)
				}
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				wantFile(t, f.Name(), want.Bytes())
			}
			record()
			s.handOver()
			record()
			s.signal(syscall.SIGKILL)
			s.reap(s.pid)
			s.pid = 0
			s.start()
			record()
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := m.end(syscall.SIGTERM); err != nil {
				t.Errorf("%v\n%s", err, m.errs.String())
			}
			wantFile(t, filepath.Join(s.dir, "data", "records"), want.Bytes())
			s.stop()
		})
	}
}

func TestMountRefusals(t *testing.T) {
	s := startServer(t, t.TempDir())
	write(t, nil, s.dir, "d", "f")
	dir := t.TempDir()
	file := write(t, nil, t.TempDir(), "file")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{s.url}, exitUsage, "mount takes a URL and a directory"},
		{[]string{s.url + "/d", dir}, exitUsage, `the URL has the path "d"`},
		{[]string{s.url, filepath.Join(dir, "none")}, exitFailure, "none: no such file or directory"},
		{[]string{s.url, file}, exitFailure, "file: not a directory"},
		{[]string{strings.TrimSuffix(s.url, "/data") + "/none", dir}, exitFailure, "none"},
		{[]string{"--file-mode", "0888", s.url, dir}, exitUsage, "octal"},
		{[]string{"--remember", "-1s", s.url, dir}, exitUsage, "0 or more"},
	} {
		if r := run(t, c.code, append([]string{"mount"}, c.args...)...); !strings.Contains(r.err, c.want) {
			t.Errorf("mount %q: %q", c.args, r.err)
		}
	}
}
