package bench

import (
	"context"
	"errors"
	"os"
)

// Local is a file of this host, read and written by one goroutine for each connection,
// through as many buffers as the job has operations in flight. It is the floor of the
// comparison.
type Local struct{ Path string }

// Name is the name of the floor among the transports.
func (l *Local) Name() string { return "local" }

// Completion is empty: a call is complete when it returns.
func (l *Local) Completion() string { return "" }

// Open opens the file.
func (l *Local) Open(_ context.Context, j *Job) (Conn, error) {
	flag := os.O_RDONLY
	if j.Pattern.Writes() {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(l.Path, flag, 0)
	if err != nil {
		return nil, err
	}
	return &localConn{f: f, mem: cut(make([]byte, j.Depth*j.BlockSize), j.BlockSize)}, nil
}

type localConn struct {
	f   *os.File
	mem [][]byte // used in turns
}

// Run does one operation after the other, each in the next buffer.
func (c *localConn) Run(_ context.Context, w *Worker) error {
	for i := 0; ; i++ {
		o, ok := w.Next(w.Now())
		if !ok {
			return nil
		}
		p := c.mem[i%len(c.mem)]
		w.Fill(o, p)
		do := c.f.ReadAt
		if o.Write {
			do = c.f.WriteAt
		}
		n, err := do(p, o.Off)
		w.Done(o, p, n, err, w.Now())
	}
}

// ReadAt reads outside the measurement.
func (c *localConn) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return c.f.ReadAt(p, off)
}

// WriteAt writes outside the measurement.
func (c *localConn) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	return c.f.WriteAt(p, off)
}

// Close closes the file.
func (c *localConn) Close() error { return c.f.Close() }

// MakeFile makes a file of size bytes with the content of FillFile. It must not exist.
func MakeFile(path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return FillFile(size, func(p []byte, off int64) error {
		_, err := f.WriteAt(p, off)
		return err
	})
}

// cut fills memory and cuts it into blocks. Memory that no program has written is one page
// of zeros, which the CPU reads from its cache: writes of it measure less than writes of data.
func cut(mem []byte, size int) (all [][]byte) {
	for i := range mem {
		mem[i] = byte(i * 7 >> 3)
	}
	for ; len(mem) > 0; mem = mem[size:] {
		all = append(all, mem[:size:size])
	}
	return all
}
