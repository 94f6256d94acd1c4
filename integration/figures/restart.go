package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lwio"
	"lwio/integration/internal/measure"
	"lwio/internal/statefile"
)

// The numbers of locks of each open: of a state that a server makes, which bounds the locks of a user, and of records
// that are written without a server.
const (
	heldLocks    = 4
	writtenLocks = 10
)

// fullOpens is the number of opens of a large state: 10,000, or fewer if the large file is small.
func fullOpens(l *measure.Lab) int { return smallFiles(l) }

// state is the directory of a state between the end of a server and the start of the next one.
type state struct {
	Opens func(l *measure.Lab) int // each with heldLocks locks
	dir   string                   // "" before it is made
}

func none(*measure.Lab) int { return 0 }

// make has a server make the state, and kills it.
func (s *state) make(ctx context.Context, l *measure.Lab) (err error) {
	if s.dir != "" {
		return nil
	}
	dir, err := os.MkdirTemp(l.Dir, "state-")
	if err != nil {
		return err
	}
	srv, err := l.Serve(dir, l.Server, "", serveCommand(binary(l), l.Share, dir)...)
	if err != nil {
		return err
	}
	c, err := lwio.Dial(ctx, srv.At, &lwio.Config{SMBOnly: true})
	if err == nil {
		err = openAndLock(ctx, c, s.Opens(l))
	}
	err = errors.Join(err, l.Drop(dir)) // before the client can close the files
	if c != nil {
		_ = c.Close() // the server is dead
	}
	if err == nil {
		s.dir = dir
	}
	return err
}

// openAndLock makes files, and locks ranges of each.
func openAndLock(ctx context.Context, c *lwio.Client, count int) error {
	const width = 32 // at a time
	var all sync.WaitGroup
	errs := make([]error, width)
	for w := range width {
		all.Go(func() {
			for i := w; i < count && errs[w] == nil; i += width {
				errs[w] = openLocked(ctx, c, fmt.Sprintf("open-%05d", i))
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

// openLocked makes a file and locks ranges of it. The file stays open.
func openLocked(ctx context.Context, c *lwio.Client, name string) error {
	f, err := c.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE, 0o644)
	for i := range uint64(heldLocks) {
		if err == nil {
			err = f.TryLock(ctx, lwio.Range{Off: 2 * i, Len: 1}, lwio.LockExclusive)
		}
	}
	return err
}

// filesSize is the size of the files in a directory, in bytes, with reserved space.
func filesSize(dir string) (size float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += float64(info.Size())
		}
		return err
	})
	return size, err
}

// restart is a start of a server, until it serves.
type restart struct{ State *state } // nil for a server without a state

// Run does the job once. The server is killed, and leaves the state as it was.
func (j restart) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	dir := ""
	if j.State != nil {
		if err := j.State.make(ctx, l); err != nil {
			return nil, err
		}
		dir = j.State.dir
	}
	begin := time.Now()
	s, err := l.Serve("restart", l.Server, "", serveCommand(binary(l), l.Share, dir)...)
	if err != nil {
		return nil, errors.Join(err, l.Drop("restart"))
	}
	sample := measure.Sample{
		measure.Each: float64(time.Since(begin)), measure.ServerCPU: float64(measure.ProcessCPU(s.PID())),
		measure.TotalMemory: float64(measure.Resident(s.PID())),
	}
	err = l.Drop("restart")
	if err == nil && j.State != nil {
		sample[measure.StateSize], err = filesSize(dir)
	}
	return sample, err
}

// loading is the load of the records of opens and their locks, without a server.
type loading struct{}

// Run does the job once.
func (loading) Run(_ context.Context, l *measure.Lab) (_ measure.Sample, err error) {
	dir, err := os.MkdirTemp(l.Dir, "records-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	want, err := writeRecords(dir, fullOpens(l))
	if err != nil {
		return nil, err
	}
	begin, records := time.Now(), 0
	log, err := statefile.Open(dir)
	if err != nil {
		return nil, err
	}
	err = log.Each(func(statefile.Key, []byte) error { records++; return nil })
	took := float64(time.Since(begin))
	if records != want {
		err = errors.Join(err, fmt.Errorf("the state has %d records, and %d were written", records, want))
	}
	size, e := filesSize(dir)
	return measure.Sample{measure.Each: took, measure.StateSize: size}, errors.Join(err, log.Close(), e)
}

// writeRecords writes the records of opens, and of writtenLocks locks of each. It returns their number.
func writeRecords(dir string, opens int) (n int, err error) {
	log, err := statefile.Open(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	var batch statefile.Batch
	for group := range uint64(opens) {
		for item := range uint64(1 + writtenLocks) {
			value := make([]byte, lockRecord)
			if item == 0 {
				value = make([]byte, openRecord)
			}
			batch.Reset()
			batch.Put(statefile.Key{Group: group, Item: item}, value)
			if err := log.Apply(&batch); err != nil {
				return 0, err
			}
			n++
		}
	}
	return n, nil
}
