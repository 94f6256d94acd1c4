package leakcheck

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"lwio/internal/test/skip"
)

func TestMain(m *testing.M) { Main(m) }

// impatient is a snapshot that does not wait for real leaks.
func impatient() Snapshot {
	s := Take()
	s.patience = 0
	return s
}

func TestNoLeakIsNoError(t *testing.T) {
	s := Take()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	l.Close()
	<-done
	if err := s.Err(); err != nil {
		t.Errorf("all was closed, yet: %v", err)
	}
}

func TestLeftGoroutineIsReported(t *testing.T) {
	s := impatient()
	stop := make(chan struct{})
	defer close(stop)
	go func() { <-stop }()
	err := s.Err()
	if err == nil || !strings.Contains(err.Error(), "TestLeftGoroutineIsReported") {
		t.Errorf("a goroutine that waits forever gives %v", err)
	}
}

func TestLeftDescriptorIsReported(t *testing.T) {
	if runtime.GOOS != "linux" {
		skip.Test(t, "descriptors are counted on Linux only")
	}
	path := filepath.Join(t.TempDir(), "forgotten")
	s := impatient()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("an open file gives %v", err)
	}
}

// Pipes that the Go runtime pools for copies between sockets are no leak.
func TestPooledPipesAreNoLeak(t *testing.T) {
	if runtime.GOOS != "linux" {
		skip.Test(t, "descriptors are counted on Linux only")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	s := Take()
	from, to := connected(t), connected(t)
	_, err := from[0].Write([]byte("x"))
	if err == nil {
		_, err = io.CopyN(to[0], from[1], 1)
	}
	for _, c := range []net.Conn{from[0], from[1], to[0], to[1]} {
		c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if !onlyPipes(s.left()) {
		skip.Test(t, "the runtime kept", s.left())
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

// connected is both ends of a TCP connection.
func connected(t *testing.T) [2]net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return [2]net.Conn{a, b}
}

// A descriptor that was open before is no leak; one that took its number is.
func TestReplacedDescriptorIsReported(t *testing.T) {
	if runtime.GOOS != "linux" {
		skip.Test(t, "descriptors are counted on Linux only")
	}
	dir := t.TempDir()
	old, err := os.Create(filepath.Join(dir, "old"))
	if err != nil {
		t.Fatal(err)
	}
	s := Take()
	if err := s.Err(); err != nil {
		t.Errorf("a file that was open before counts: %v", err)
	}
	old.Close()
	s.patience = 0
	f, err := os.Create(filepath.Join(dir, "new"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Err(); err == nil {
		t.Error("a new file with the number of an old one is not seen")
	}
}

// recorder records the errors and cleanups of a test.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()                           {}
func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) { r.errors = append(r.errors, format) }

func TestCheckFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	s := impatient()
	s.checkAtEnd(r)
	stop := make(chan struct{})
	go func() { <-stop }()
	r.cleanups[0]()
	close(stop)
	if len(r.errors) != 1 {
		t.Errorf("the test that leaks has %d errors", len(r.errors))
	}
}
