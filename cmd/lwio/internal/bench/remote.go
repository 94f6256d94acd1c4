package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"lwio"
)

// Remote is a file of a share over one transport.
type Remote struct {
	// Transport is its name, "" for what a client takes, and Mode how operations end, ""
	// for how they do by themselves.
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

// Completion is the mode; "" for SMB, which has no choice, and for a transport that Open
// has yet to find out.
func (r *Remote) Completion() string {
	switch name := r.Name(); {
	case name == "" || name == lwio.TransportSMB:
		return ""
	case r.Mode == "":
		return lwio.Adaptive.String()
	}
	return r.Mode
}

// Open connects, opens the file, and makes the memory that is read into or written from.
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
	l := &remoteLane{c: c, f: f}
	if c.Transport().RDMA() {
		if err := l.allocate(ctx, j); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

type remoteLane struct {
	c    *lwio.Client
	f    *lwio.File
	bufs []*lwio.Buffer
	mem  [][]byte // of each operation in flight, parts of bufs; none over SMB
}

// Run keeps the operations in flight from one goroutine, whose time is not that of
// many; SMB has each in a call of its own, which waits.
func (l *remoteLane) Run(ctx context.Context, w *Worker) error {
	do := l.f.ReadAtContext
	if w.Job.Pattern.Writes() {
		do = l.f.WriteAtContext
	}
	switch {
	case !l.c.Transport().RDMA():
		w.Shared(w.Job.Depth, func(o Operation, p []byte) (int, error) { return do(ctx, p, o.Off) })
		return nil
	case w.Job.Depth > 1:
		return l.batch(ctx, w)
	}
	l.calls(w, func(o Operation, p []byte) (int, error) { return do(ctx, p, o.Off) })
	return nil
}

// calls does one operation after the other in registered memory.
func (l *remoteLane) calls(w *Worker, do func(o Operation, p []byte) (int, error)) {
	for p := l.mem[0]; ; {
		o, ok := w.Next(time.Now())
		if !ok {
			return
		}
		if w.Job.Pattern.Writes() {
			w.Fill(o, p)
		}
		n, err := do(o, p)
		w.Done(o, p, n, err, time.Now())
	}
}

// batch does the operations in registered memory.
func (l *remoteLane) batch(ctx context.Context, w *Worker) error {
	b := l.c.NewBatch(w.Job.Depth)
	defer b.Close() // takes the memory back
	ops := make([]Operation, w.Job.Depth)
	idle := make([]uint64, w.Job.Depth)
	for i := range idle {
		idle[i] = uint64(i)
	}
	var now time.Time // what comes together was seen at one time
	for {
		if err := l.queue(b, w, ops, idle); err != nil {
			return err
		}
		if b.Pending() == 0 {
			return nil
		}
		done, err := b.Wait(ctx, 1)
		idle, now = idle[:0], time.Now()
		for _, c := range done {
			w.Done(ops[c.Tag], l.mem[c.Tag], c.N, c.Err, now)
			idle = append(idle, c.Tag)
		}
		if err != nil {
			return err
		}
	}
}

// queue gives each idle place in the batch its next operation.
func (l *remoteLane) queue(b *lwio.Batch, w *Worker, ops []Operation, idle []uint64) (err error) {
	now := time.Now()
	for _, i := range idle {
		o, ok := w.Next(now)
		if !ok {
			return nil
		}
		if ops[i] = o; w.Job.Pattern.Writes() {
			w.Fill(o, l.mem[i])
			err = b.Write(l.f, l.mem[i], o.Off, i)
		} else {
			err = b.Read(l.f, l.mem[i], o.Off, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxRegion bounds one piece of a lane's memory, in bytes.
const maxRegion = 256 << 20

// allocate makes registered memory for each operation in flight, in as few pieces as may be.
func (l *remoteLane) allocate(ctx context.Context, j *Job) error {
	for len(l.mem) < j.Depth {
		n := min(max(maxRegion/j.BlockSize, 1), j.Depth-len(l.mem))
		b, err := l.c.Alloc(ctx, n*j.BlockSize)
		if err != nil {
			return err
		}
		l.bufs = append(l.bufs, b)
		for p := b.Bytes(); len(p) > 0; p = p[j.BlockSize:] {
			l.mem = append(l.mem, p[:j.BlockSize:j.BlockSize])
		}
	}
	touch(l.mem)
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

// Close closes file and connection, and frees the memory.
func (l *remoteLane) Close() error {
	var errs []error
	for _, b := range l.bufs {
		errs = append(errs, b.Close())
	}
	return errors.Join(append(errs, l.f.Close(), l.c.Close())...)
}
