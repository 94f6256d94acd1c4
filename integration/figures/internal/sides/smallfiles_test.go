package sides

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Small files are copied whole in both directions, with any number in flight.
func TestSmallFilesAreCopied(t *testing.T) {
	const size, count = 100, 50
	from := t.TempDir()
	for i := range count {
		if err := os.WriteFile(filepath.Join(from, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, flight := range []int{0, 1, 16, 2 * count} {
		for _, up := range []bool{false, true} {
			to := filepath.Join(t.TempDir(), "to")
			job := Job{File: from, To: to, Size: size, Flight: flight, Up: up}
			a, b := tcpPair(t)
			served, passive := make(chan error, 1), &side{Job: job}
			go func() { served <- passive.copySmall(b) }()
			job.Active = true
			active := &side{Job: job}
			if err := active.copySmall(a); err != nil || active.outcome.Ops != count {
				t.Errorf("%d files, %v", active.outcome.Ops, err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			entries, err := os.ReadDir(to)
			if err != nil || len(entries) != count {
				t.Errorf("%d files in flight, up %v: %d files, %v", flight, up, len(entries), err)
			}
			for i := range count {
				if got, err := os.ReadFile(filepath.Join(to, fmt.Sprint(i))); !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, size)) {
					t.Errorf("file %d has %x, %v", i, got, err)
				}
			}
		}
	}
}

// tcpPair is a connection and its other end, which the end of the test closes.
func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
