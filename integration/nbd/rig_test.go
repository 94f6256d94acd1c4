package nbd

import (
	"bufio"
	"bytes"
	"context"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio/integration/internal/supervise"
	"lwio/internal/test/skip"
)

// patience bounds each program of a test. Only a failure takes so long.
const patience = 3 * time.Minute

// imageSize is the size of the images, in bytes.
const imageSize = 48 << 20

// need skips the test if a program is not installed.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			skip.Test(t, "a program is not installed", p)
		}
	}
}

// device is an image on a share, and 'lwio nbd' in front of it.
type device struct {
	server *supervise.Server
	image  string // the file of the export, on this host
	uri    string
	sock   string
	flags  []string
}

// serve starts a server of a share and 'lwio nbd' with flags, over a transport. The image has random content.
func serve(t *testing.T, transport string, flags []string, serverFlags ...string) *device {
	t.Helper()
	dir := t.TempDir()
	d := &device{image: filepath.Join(dir, "disk.raw"), sock: filepath.Join(t.TempDir(), "s"), flags: flags}
	write(t, d.image, randomBytes(imageSize))
	var err error
	if d.server, err = supervise.New(supervise.Config{Binary: lwioBin, Dir: dir, Flags: serverFlags, Log: testLog{t, "server: "}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.server.Close(); err != nil {
			t.Error(err)
		}
	})
	d.start(t, transport)
	return d
}

// start starts 'lwio nbd'.
func (d *device) start(t *testing.T, transport string) {
	t.Helper()
	u, err := url.Parse(d.server.URL(transport))
	if err != nil {
		t.Fatal(err)
	}
	u.Path += "/disk.raw"
	args := append([]string{"nbd", "--listen", "unix://" + d.sock}, d.flags...)
	cmd := exec.Command(lwioBin, append(args, u.String())...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = testLog{t, "nbd: "}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("lwio nbd: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("lwio nbd printed %q: %v", line, err)
	}
	d.uri = strings.TrimSpace(line)
}

// content is the content of the image now.
func (d *device) content(t *testing.T) []byte { return read(t, d.image) }

// output runs a program, which must succeed, and returns its standard output.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), e, out.String(), err.String())
	}
	return out.String()
}

func randomBytes(n int) []byte {
	var seed [32]byte
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testLog passes the standard error of a process to the log of a test.
type testLog struct {
	t      *testing.T
	prefix string
}

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(l.prefix + strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
