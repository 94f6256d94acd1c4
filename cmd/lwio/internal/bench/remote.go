package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"lwio"
)

// Remote is a file of a share over one transport.
type Remote struct {
	// Transport is its name, "" for the client's choice, and Mode how operations complete, ""
	// for the default.
	Transport, Mode string
	// Path is the file's name in the share.
	Path string
	// Dial connects a client for each connection.
	Dial func(ctx context.Context) (*lwio.Client, error)

	mu   sync.Mutex
	used string // the transport that a client chose
}

// Name is the name of the transport. Open learns it if the client chooses the transport.
func (r *Remote) Name() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Transport == "" {
		return r.used
	}
	return r.Transport
}

// Completion is the mode; "" for SMB, which has no choice, and for a transport that is
// not known yet.
func (r *Remote) Completion() string {
	switch name := r.Name(); {
	case name == "" || name == lwio.TransportSMB:
		return ""
	case r.Mode == "":
		return lwio.Adaptive.String()
	}
	return r.Mode
}

// Open connects, opens the file, and allocates the memory of the operations in flight.
func (r *Remote) Open(ctx context.Context, j *Job) (_ Conn, err error) {
	c, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	rc := &remoteConn{c: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, rc.Close())
		}
	}()
	flag := os.O_RDONLY
	if j.Pattern.Writes() {
		flag = os.O_RDWR
	}
	if rc.f, err = c.OpenFile(ctx, r.Path, flag, 0); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.used = c.Transport().Name
	r.mu.Unlock()
	if used := c.Transport().Name; used != r.Name() {
		return nil, fmt.Errorf("the data would go over %s", used)
	}
	if err := rc.allocate(ctx, j); err != nil {
		return nil, err
	}
	return rc, nil
}

type remoteConn struct {
	c    *lwio.Client
	f    *lwio.File
	bufs []*lwio.Buffer
	mem  [][]byte // of each operation in flight; parts of bufs over RDMA
}

// Run does the operations by the job's engine.
func (c *remoteConn) Run(ctx context.Context, w *Worker) error {
	engine := w.Job.Engine
	if engine == EngineAuto {
		engine = EngineSync
		if c.c.Transport().RDMA() && w.Job.Depth > 1 {
			engine = EngineBatch
		}
	}
	switch engine {
	case EngineBatch:
		return c.batch(ctx, w)
	case EngineVec:
		c.vectors(ctx, w)
	default:
		w.Calls(c.mem, func(o Operation, p []byte) (int, error) {
			if o.Write {
				return c.f.WriteAtContext(ctx, p, o.Off)
			}
			return c.f.ReadAtContext(ctx, p, o.Off)
		})
	}
	return nil
}

// batch keeps the operations in flight from one goroutine, which costs less CPU than many.
func (c *remoteConn) batch(ctx context.Context, w *Worker) error {
	b := c.c.NewBatch(w.Job.Depth)
	defer b.Close() // returns the memory
	ops := make([]Operation, w.Job.Depth)
	idle := make([]uint64, w.Job.Depth)
	for i := range idle {
		idle[i] = uint64(i)
	}
	for {
		if err := c.queue(b, w, ops, idle); err != nil {
			return err
		}
		if b.Pending() == 0 {
			return nil
		}
		idle = idle[:0]
		for len(idle) == 0 || len(idle) < w.Job.BatchComplete && b.Pending() > 0 {
			done, err := b.Wait(ctx, max(w.Job.BatchComplete-len(idle), 1))
			now := w.Now() // completions of one Wait were seen at one time
			for _, d := range done {
				w.Done(ops[d.Tag], c.mem[d.Tag], d.N, d.Err, now)
				idle = append(idle, d.Tag)
			}
			if err != nil {
				return err
			}
		}
	}
}

// queue gives each idle entry of the batch its next operation.
func (c *remoteConn) queue(b *lwio.Batch, w *Worker, ops []Operation, idle []uint64) (err error) {
	now := w.Now()
	for _, i := range idle {
		o, ok := w.Next(now)
		if !ok {
			return nil
		}
		ops[i] = o
		w.Fill(o, c.mem[i])
		if o.Write {
			err = b.WriteAt(c.f, c.mem[i], o.Off, i)
		} else {
			err = b.ReadAt(c.f, c.mem[i], o.Off, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// vectors moves all blocks by vectored calls, one after the other.
func (c *remoteConn) vectors(ctx context.Context, w *Worker) {
	size := int64(w.Job.BlockSize)
	block := func(o Operation, i int) Operation { o.Off += int64(i) * size; return o }
	for {
		o, ok := w.Next(w.Now())
		if !ok {
			return
		}
		do := c.f.ReadVec
		if o.Write {
			do = c.f.WriteVec
			for i, p := range c.mem {
				w.Fill(block(o, i), p)
			}
		}
		n, err := do(ctx, c.mem, o.Off)
		now := w.Now()
		for i, p := range c.mem {
			w.Done(block(o, i), p, max(min(n-i*w.Job.BlockSize, w.Job.BlockSize), 0), err, now)
		}
	}
}

// maxRegion bounds one allocation of a connection's memory, in bytes.
const maxRegion = 256 << 20

// allocate makes the memory of each operation in flight, registered over RDMA, in as few
// allocations as possible.
func (c *remoteConn) allocate(ctx context.Context, j *Job) error {
	for len(c.mem) < j.Depth {
		n := min(max(maxRegion/j.BlockSize, 1), j.Depth-len(c.mem)) * j.BlockSize
		var mem []byte
		if c.c.Transport().RDMA() {
			b, err := c.c.Alloc(ctx, n)
			if err != nil {
				return err
			}
			c.bufs = append(c.bufs, b)
			mem = b.Bytes()
		} else {
			mem = make([]byte, n)
		}
		c.mem = append(c.mem, cut(mem, j.BlockSize)...)
	}
	return nil
}

// ReadAt reads outside the measurement.
func (c *remoteConn) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return c.f.ReadAtContext(ctx, p, off)
}

// WriteAt writes outside the measurement.
func (c *remoteConn) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	return c.f.WriteAtContext(ctx, p, off)
}

// Close closes file and connection, and frees the memory.
func (c *remoteConn) Close() error {
	var errs []error
	for _, b := range c.bufs {
		errs = append(errs, b.Close())
	}
	if c.f != nil {
		errs = append(errs, c.f.Close())
	}
	return errors.Join(append(errs, c.c.Close())...)
}
