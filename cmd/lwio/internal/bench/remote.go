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
	return l.calls(w, func(o Operation, p []byte) (int, error) { return do(ctx, p, o.Off) })
}

// calls does one operation after the other in registered memory.
func (l *remoteLane) calls(w *Worker, do func(o Operation, p []byte) (int, error)) (err error) {
	mem, free, err := l.memory(context.Background(), w.Job)
	defer func() { err = errors.Join(err, free()) }()
	if err != nil {
		return err
	}
	for {
		o, ok := w.Next(time.Now())
		if !ok {
			return nil
		}
		if w.Job.Pattern.Writes() {
			w.Fill(o, mem[0])
		}
		n, err := do(o, mem[0])
		w.Done(o, mem[0], n, err, time.Now())
	}
}

// batch does the operations in registered memory.
func (l *remoteLane) batch(ctx context.Context, w *Worker) (err error) {
	mem, free, err := l.memory(ctx, w.Job)
	defer func() { err = errors.Join(err, free()) }()
	if err != nil {
		return err
	}
	b := l.c.NewBatch(w.Job.Depth)
	defer b.Close() // takes the memory back
	ops := make([]Operation, w.Job.Depth)
	idle := make([]uint64, w.Job.Depth)
	for i := range idle {
		idle[i] = uint64(i)
	}
	var now time.Time // what comes together was seen at one time
	for {
		if err := l.queue(b, w, ops, mem, idle); err != nil {
			return err
		}
		if b.Pending() == 0 {
			return nil
		}
		done, err := b.Wait(ctx, 1)
		idle, now = idle[:0], time.Now()
		for _, c := range done {
			w.Done(ops[c.Tag], mem[c.Tag], c.N, c.Err, now)
			idle = append(idle, c.Tag)
		}
		if err != nil {
			return err
		}
	}
}

// queue gives each idle place in the batch its next operation.
func (l *remoteLane) queue(b *lwio.Batch, w *Worker, ops []Operation, mem [][]byte, idle []uint64) (err error) {
	now := time.Now()
	for _, i := range idle {
		o, ok := w.Next(now)
		if !ok {
			return nil
		}
		if ops[i] = o; w.Job.Pattern.Writes() {
			w.Fill(o, mem[i])
			err = b.Write(l.f, mem[i], o.Off, i)
		} else {
			err = b.Read(l.f, mem[i], o.Off, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxRegion bounds one piece of a lane's memory, in bytes.
const maxRegion = 256 << 20

// memory is the registered memory of each operation in flight, in as few pieces as
// may be; free, which is never nil, ends it.
func (l *remoteLane) memory(ctx context.Context, j *Job) (mem [][]byte, free func() error, err error) {
	var all []*lwio.Buffer
	free = func() (err error) {
		for _, b := range all {
			err = errors.Join(err, b.Close())
		}
		return err
	}
	for len(mem) < j.Depth {
		n := min(max(maxRegion/j.BlockSize, 1), j.Depth-len(mem))
		b, err := l.c.Alloc(ctx, n*j.BlockSize)
		if err != nil {
			return nil, free, err
		}
		all = append(all, b)
		for p := b.Bytes(); len(p) > 0; p = p[j.BlockSize:] {
			mem = append(mem, p[:j.BlockSize:j.BlockSize])
		}
	}
	return mem, free, nil
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
