package bench

import (
	"context"
	"errors"
	"os"
	"time"
)

// Local is a file of this host, read and written by one goroutine for each
// connection, through as many buffers as operations would be in flight: the floor.
type Local struct{ Path string }

// Name says what is called.
func (l *Local) Name() string { return "local" }

// Completion is empty: a call is over when it returns.
func (l *Local) Completion() string { return "" }

// Open opens the file.
func (l *Local) Open(_ context.Context, j *Job) (Lane, error) {
	flag := os.O_RDONLY
	if j.Pattern.Writes() {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(l.Path, flag, 0)
	if err != nil {
		return nil, err
	}
	lane := &localLane{f: f, mem: make([][]byte, j.Depth)}
	for i := range lane.mem {
		lane.mem[i] = make([]byte, j.BlockSize)
	}
	touch(lane.mem)
	return lane, nil
}

type localLane struct {
	f   *os.File
	mem [][]byte // that is read into or written from, in turns
}

// Run does one operation after the other, each in the next buffer.
func (l *localLane) Run(_ context.Context, w *Worker) error {
	for i := 0; ; i++ {
		o, ok := w.Next(time.Now())
		if !ok {
			return nil
		}
		p := l.mem[i%len(l.mem)]
		var n int
		var err error
		if w.Job.Pattern.Writes() {
			w.Fill(o, p)
			n, err = l.f.WriteAt(p, o.Off)
		} else {
			n, err = l.f.ReadAt(p, o.Off)
		}
		w.Done(o, p, n, err, time.Now())
	}
}

// ReadAt reads outside the measurement.
func (l *localLane) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return l.f.ReadAt(p, off)
}

// WriteAt writes outside the measurement.
func (l *localLane) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	return l.f.WriteAt(p, off)
}

// Close closes the file.
func (l *localLane) Close() error { return l.f.Close() }

// MakeFile makes a file of size bytes that holds what FillFile gives. It must not exist.
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

// touch has the system find the pages of memory now, and not while it is measured.
func touch(mem [][]byte) {
	for _, p := range mem {
		for i := 0; i < len(p); i += 4096 {
			p[i] = 0
		}
	}
}
