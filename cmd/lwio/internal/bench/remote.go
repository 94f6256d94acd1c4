package bench

import (
	"context"
	"errors"
	"fmt"
	"os"

	"lwio"
)

// Remote is a file of a share over one transport.
type Remote struct {
	// Transport is its name, "" for what a client takes, and Mode how operations end,
	// "" where that is no choice.
	Transport, Mode string
	// Path is the file's name in the share.
	Path string
	// Dial connects a client of its own.
	Dial func(ctx context.Context) (*lwio.Client, error)

	used string // the transport that a client took
}

// Name is the transport's, which Open finds out if it was left open.
func (r *Remote) Name() string {
	if r.Transport == "" {
		return r.used
	}
	return r.Transport
}

// Completion is the mode.
func (r *Remote) Completion() string { return r.Mode }

// Open connects, and opens the file.
func (r *Remote) Open(ctx context.Context, j *Job) (Lane, error) {
	c, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	flag := os.O_RDONLY
	if j.Pattern.Writes() {
		flag = os.O_RDWR
	}
	f, err := c.OpenFile(ctx, r.Path, flag, 0)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	r.used = c.Transport().Name
	if r.used != r.Name() {
		return nil, errors.Join(fmt.Errorf("the data would go by %s", r.used), f.Close(), c.Close())
	}
	return &remoteLane{c, f}, nil
}

type remoteLane struct {
	c *lwio.Client
	f *lwio.File
}

// Run does each operation in a call of its own.
func (l *remoteLane) Run(ctx context.Context, w *Worker) error {
	do := l.f.ReadAtContext
	if w.Job.Pattern.Writes() {
		do = l.f.WriteAtContext
	}
	w.Shared(w.Job.Depth, func(o Operation, p []byte) (int, error) { return do(ctx, p, o.Off) })
	return nil
}

// ReadAt reads outside the measurement.
func (l *remoteLane) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return l.f.ReadAtContext(ctx, p, off)
}

// WriteAt writes outside the measurement.
func (l *remoteLane) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	return l.f.WriteAtContext(ctx, p, off)
}

// Close closes file and connection.
func (l *remoteLane) Close() error { return errors.Join(l.f.Close(), l.c.Close()) }
