package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/internal/test/skip"
)

// lwioBin is the command, built once for all tests.
var lwioBin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lwio-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	lwioBin = filepath.Join(dir, "lwio")
	build := exec.Command("go", "build", "-C", "..", "-o", lwioBin, "./cmd/lwio")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// need finds a program, or skips the test.
func need(t *testing.T, program string) string {
	t.Helper()
	for _, name := range []string{program, filepath.Join("/usr/sbin", program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	skip.Test(t, "a program is not installed", program)
	return ""
}

// lwioServer is a running 'lwio serve'.
type lwioServer struct {
	url            *url.URL // of the first share
	host, port     string
	user, password string
	dir            string
	cmd            *exec.Cmd
}

// serve starts 'lwio serve' on a directory, as the share "data".
func serve(t *testing.T, dir string, flags ...string) *lwioServer {
	t.Helper()
	s := serveWith(t, append(flags, "data="+dir)...)
	s.dir = dir
	return s
}

// serveWith starts 'lwio serve' with arguments.
func serveWith(t *testing.T, args ...string) *lwioServer {
	t.Helper()
	cmd := exec.Command(lwioBin, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = &testLog{t: t, prefix: "server: "}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server said nothing: %v", err)
	}
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return &lwioServer{url: u, host: u.Hostname(), port: u.Port(), user: u.User.Username(), password: password, cmd: cmd}
}

// lwio runs the command and returns its output.
func lwio(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, lwioBin, args...)
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// mustLwio runs the command, which must succeed.
func mustLwio(t *testing.T, args ...string) string {
	t.Helper()
	o, e, code := lwio(t, args...)
	if code != 0 {
		t.Fatalf("lwio %s: exit status %d\n%s%s", strings.Join(args, " "), code, o, e)
	}
	return o
}

// testLog passes a process's output to the log of a test.
type testLog struct {
	t      *testing.T
	prefix string
}

func (l *testLog) Write(p []byte) (int, error) {
	l.t.Log(l.prefix + strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
