package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"lwio/integration/internal/measure"
	"lwio/internal/statefile"
)

// writer is a way to write the records of a call.
type writer string

const (
	byLog    writer = "log"    // package statefile
	byPwrite writer = "pwrite" // as many bytes by a pwrite for each batch of records
	byCopy   writer = "copy"   // as many bytes by a copy into mapped memory for each batch
)

// records are the records of a call, written by one goroutine, without a server.
type records struct {
	Call call
	By   writer
}

// Run does the job once.
func (j records) Run(_ context.Context, l *measure.Lab) (_ measure.Sample, err error) {
	dir, err := os.MkdirTemp(l.Dir, "records-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log, err := statefile.Open(filepath.Join(dir, "state"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	both := j.Call.batches(log)
	if j.By != byLog {
		f, err := newFloor(filepath.Join(dir, "floor"), j.By)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		for i, apply := range both {
			before := log.Stats().FileBytes
			if err := apply(); err != nil {
				return nil, err
			}
			p := make([]byte, log.Stats().FileBytes-before)
			both[i] = func() error { return f.write(p) }
		}
	}
	return repeat(l.Runtime, both)
}

// repeat does the two batches of a call again and again.
func repeat(runtime time.Duration, both [2]func() error) (measure.Sample, error) {
	const atOnce = 1000
	ops, begin := 0, time.Now()
	for time.Since(begin) < runtime {
		for range atOnce {
			if err := errors.Join(both[0](), both[1]()); err != nil {
				return nil, err
			}
		}
		ops += atOnce
	}
	each := float64(time.Since(begin)) / float64(ops)
	return measure.Sample{measure.Each: each, measure.Rate: 1e9 / each}, nil
}

// The sizes of the values of records, in bytes: an open with short names, a lock, and the number of a request.
const (
	openRecord     = 180
	lockRecord     = 17
	sequenceRecord = 1
)

// batches are the two batches of a call: the second one undoes the first.
func (c call) batches(log *statefile.Log) [2]func() error {
	var batch statefile.Batch
	record, lock, sequence, n := make([]byte, openRecord), make([]byte, lockRecord), make([]byte, sequenceRecord), uint64(1<<10)
	if c == opening {
		return [2]func() error{
			func() error {
				n++
				batch.Reset()
				batch.Put(statefile.Key{Group: n}, record)
				return log.Apply(&batch)
			},
			func() error { return log.Drop(n) },
		}
	}
	return [2]func() error{
		func() error {
			n++
			batch.Reset()
			batch.Put(statefile.Key{Group: 1, Item: n}, lock)
			batch.Put(statefile.Key{Group: 1, Item: 1}, sequence)
			return log.Apply(&batch)
		},
		func() error {
			batch.Reset()
			batch.Delete(statefile.Key{Group: 1, Item: n})
			batch.Put(statefile.Key{Group: 1, Item: 1}, sequence)
			return log.Apply(&batch)
		},
	}
}

// floorSize is the size of the file of a floor, in bytes. It is written again and again, as no log may be.
const floorSize = 4 * mib

// recordFloor writes bytes into a file with reserved space, without a wait for the disk.
type recordFloor struct {
	f      *os.File
	mapped []byte // for byCopy
	off    int
}

// newFloor makes the file. The caller closes the floor.
func newFloor(name string, by writer) (_ *recordFloor, err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	floor := &recordFloor{f: f}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, floorSize); err != nil {
		return nil, errors.Join(fmt.Errorf("fallocate: %w", err), f.Close())
	}
	if by == byCopy {
		if floor.mapped, err = unix.Mmap(int(f.Fd()), 0, floorSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return nil, errors.Join(fmt.Errorf("mmap: %w", err), f.Close())
		}
	}
	return floor, nil
}

// write writes p behind the last write, or at the begin of the file.
func (r *recordFloor) write(p []byte) (err error) {
	if r.off+len(p) > floorSize {
		r.off = 0
	}
	if r.mapped != nil {
		copy(r.mapped[r.off:], p)
	} else {
		_, err = r.f.WriteAt(p, int64(r.off))
	}
	r.off += len(p)
	return err
}

func (r *recordFloor) close() error {
	var err error
	if r.mapped != nil {
		err = unix.Munmap(r.mapped)
	}
	return errors.Join(err, r.f.Close())
}
