package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"lwio"
)

// remoteSource is a file of a share.
type remoteSource struct {
	f    *lwio.File
	size int64
}

// openRemote opens a file of a share to copy from.
func openRemote(ctx context.Context, c *lwio.Client, name string) (*remoteSource, error) {
	f, err := c.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &remoteSource{f, f.OpenInfo().Size()}, nil
}

func (s *remoteSource) Size() int64           { return s.size }
func (s *remoteSource) Sparse() bool          { return isSparse(s.f.OpenInfo()) }
func (s *remoteSource) Close(why error) error { return closeRemote(s.f, why) }

// closeRemote closes a file of a share. It sends no request to a server that did not
// respond in time: such a server closes the file, and deletes an uncommitted file, when the
// connection ends.
func closeRemote(f io.Closer, why error) error {
	if outOfTime(why) {
		return nil
	}
	return f.Close()
}

// gone reports whether an error is a lost connection or an expired time limit: further
// requests on the same connection fail too.
func gone(err error) bool { return errors.Is(err, net.ErrClosed) || outOfTime(err) }

// outOfTime reports whether an error is the end of a time limit.
func outOfTime(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

func (s *remoteSource) ReadChunk(ctx context.Context, p []byte, off int64) (int, error) {
	return s.f.ReadAtContext(ctx, p, off)
}

// remotePending is an unfinished file of a share.
type remotePending struct{ f *lwio.PendingFile }

func (p *remotePending) Ordered() bool { return false }

// maxRepeats is the number of times that a call is repeated after a loss.
const maxRepeats = 8

// untilCertain calls do, and calls it again if a lost connection leaves its outcome unknown.
func untilCertain(do func() error) error {
	for repeats := 0; ; repeats++ {
		err := do()
		if !errors.Is(err, lwio.ErrUncertain) || !errors.Is(err, net.ErrClosed) || repeats == maxRepeats {
			return err
		}
	}
}

// WriteChunk writes a chunk again if a lost connection leaves its outcome unknown: no other program writes
// to the file before it has its name.
func (p *remotePending) WriteChunk(ctx context.Context, b []byte, off int64) error {
	return writeAgain(ctx, p.f.File, b, off)
}

// writeAgain writes, and repeats a write whose outcome is unknown after a loss.
func writeAgain(ctx context.Context, f *lwio.File, b []byte, off int64) error {
	return untilCertain(func() error {
		_, err := f.WriteAtContext(ctx, b, off)
		return err
	})
}

func (p *remotePending) Source(size int64) source { return &remoteSource{p.f.File, size} }

func (p *remotePending) Abort(why error) error { return closeRemote(p.f, why) }

// Commit asks the server about the name after a loss, and renames the file if it has the old one yet.
func (p *remotePending) Commit(ctx context.Context) error {
	return untilCertain(func() error { return p.f.Commit(ctx) })
}

// streamSource is standard input.
type streamSource struct{ r io.Reader }

func (s *streamSource) Size() int64 { return -1 }

// ReadChunk fills p from the stream; io.EOF comes with the last bytes. A read of a terminal
// or a pipe cannot be interrupted: if ctx ends first, the goroutine that reads ends with
// the process.
func (s *streamSource) ReadChunk(ctx context.Context, p []byte, _ int64) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	own := make([]byte, len(p))
	go func() {
		n, err := io.ReadFull(s.r, own)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		if errors.Is(r.err, io.ErrUnexpectedEOF) {
			r.err = io.EOF
		}
		return copy(p, own[:r.n]), r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// streamSink is standard output.
type streamSink struct{ w io.Writer }

func (s *streamSink) Ordered() bool { return true }

func (s *streamSink) WriteChunk(_ context.Context, p []byte, _ int64) error {
	_, err := s.w.Write(p)
	return err
}

// digestSource passes a stream on and keeps a digest of it.
type digestSource struct {
	source
	mu sync.Mutex
	h  io.Writer
}

func (d *digestSource) ReadChunk(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := d.source.ReadChunk(ctx, p, off)
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = d.h.Write(p[:n])
	return n, err
}
