package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lwio"
)

// The server's process stops in the middle of a copy. The command names the request that was
// not answered in time, and sends no further one, which would only fail too.
func TestFrozenServerEndsCopy(t *testing.T) {
	t.Setenv(asCommand, "1")
	for _, provider := range []string{lwio.DefaultProviders()[0].Name(), "iwarp", lwio.TransportSMB} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := startOwnServer(context.WithoutCancel(t.Context()), io.Discard, dir)
			if err != nil {
				t.Fatal(err)
			}
			signal := func(to os.Signal) {
				if err := s.cmd.Process.Signal(to); err != nil {
					t.Error(err)
				}
			}
			in := &signalReader{r: endless{}, left: 4 * chunkSize, hit: func() { signal(syscall.SIGSTOP) }}
			r := runCommand(t.Context(), in, "cp", "--timeout", "3s", "-", s.url+"/dst?provider="+provider)
			signal(syscall.SIGCONT)
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if r.code != exitFailure || strings.Contains(r.err, "lwio: close") {
				t.Errorf("exit status %d, %q", r.code, r.err)
			}
			wantNames(t, dir)
		})
	}
}

// silentSource is a file. One of its chunks comes too late, and the others never.
type silentSource struct{ asked atomic.Int32 }

func (s *silentSource) Size() int64 { return 2 * chunkSize }

func (s *silentSource) ReadChunk(ctx context.Context, _ []byte, _ int64) (int, error) {
	if s.asked.Add(1) == 2 {
		return 0, os.ErrDeadlineExceeded
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestTransferGivesUp does not wait for a server that missed a time limit.
func TestTransferGivesUp(t *testing.T) {
	_, err := transfer(t.Context(), &silentSource{}, &streamSink{w: io.Discard}, transferOptions{depth: 2})
	if !outOfTime(err) {
		t.Errorf("the copy ended with %v", err)
	}
}

// silentTree is the local file system, and no file of it is opened in time.
type silentTree struct {
	localTree
	asked *atomic.Int32
	err   error
}

func (s silentTree) Open(context.Context, string) (fileSource, error) {
	s.asked.Add(1)
	return nil, &fs.PathError{Op: "open", Path: "f", Err: s.err}
}

// The copy of a directory from a server that does not answer begins no further file after the
// first failure.
func TestSilentServerEndsTreeCopy(t *testing.T) {
	src := t.TempDir()
	for i := range 20 * treeWorkers {
		write(t, nil, src, fmt.Sprint(i))
	}
	for _, cause := range []error{os.ErrDeadlineExceeded, context.DeadlineExceeded, net.ErrClosed} {
		asked := new(atomic.Int32)
		_, _, err := (&copyJob{bar: newProgress(io.Discard)}).directory(t.Context(), silentTree{asked: asked, err: cause}, src, localTree{}, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "the copy was stopped") {
			t.Errorf("%v: the copy ended with %v", cause, err)
		}
		if n := asked.Load(); n > treeWorkers {
			t.Errorf("%v: %d files were asked for", cause, n)
		}
	}
}
