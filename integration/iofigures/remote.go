package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"lwio"
	"lwio/integration/internal/measure"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// remoteLane is a connection to our server.
type remoteLane struct {
	job
	c    *lwio.Client
	f    *lwio.File
	buf  *lwio.Buffer
	bufs [][]byte // registered, one for each operation in flight
}

// dialling is how many connections are made at a time.
const dialling = 8

// openRemote makes the job's connections.
func openRemote(j job) ([]lane, error) {
	made, errs := make([]*remoteLane, max(j.Lanes, 1)), make([]error, max(j.Lanes, 1))
	measure.Each(len(made), dialling, func(i int) { made[i], errs[i] = openLane(j) })
	var lanes []lane
	for _, l := range made {
		if l != nil {
			lanes = append(lanes, l)
		}
	}
	return lanes, errors.Join(errs...)
}

// openLane connects, by the job's provider and no other.
func openLane(j job) (l *remoteLane, err error) {
	ctx := context.Background()
	l = &remoteLane{job: j}
	if l.c, err = lwio.Dial(ctx, j.At+"?provider="+j.Way+"&completion="+j.Mode, j.config()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err, l = errors.Join(err, l.Close()), nil
		}
	}()
	if l.f, err = l.c.OpenFile(ctx, filepath.Base(j.File), os.O_RDWR, 0); err != nil {
		return l, err
	}
	if l.buf, err = l.c.Alloc(ctx, j.Depth*j.Size); err != nil {
		return l, err
	}
	l.bufs = buffers(filled(l.buf.Bytes()), j.Size)
	return l, nil
}

func (j job) config() *lwio.Config {
	cfg := &lwio.Config{RequireRDMA: true}
	if j.NoCRC {
		cfg.Providers = []rdma.Provider{iwarp.New(&iwarp.Config{CRC: iwarp.CRCOff})}
	}
	return cfg
}

// Close closes what is open.
func (l *remoteLane) Close() (err error) {
	if l.f != nil {
		err = l.f.Close()
	}
	if l.buf != nil {
		err = errors.Join(err, l.buf.Close())
	}
	return errors.Join(err, l.c.Close())
}

func (l *remoteLane) run(m *meter) error {
	switch l.Style {
	case batch:
		return l.batch(m)
	case single:
		return l.singles(m)
	case burst:
		return l.bursts(m)
	case vec:
		return l.vecs(m)
	default:
		return fmt.Errorf("%s has no style %q", l.Way, l.Style)
	}
}

// singles makes a call at a time on each of Depth goroutines.
func (l *remoteLane) singles(m *meter) error {
	do := l.f.ReadAt
	if l.Write {
		do = l.f.WriteAt
	}
	if l.Depth == 1 {
		p := l.bufs[0]
		return m.do(func(off int64) error {
			n, err := do(p, off)
			return whole(p, n, err)
		})
	}
	var mu sync.Mutex // of m
	errs := make([]error, l.Depth)
	var wg sync.WaitGroup
	for i, p := range l.bufs {
		wg.Go(func() {
			for {
				mu.Lock()
				off, ok := m.next()
				mu.Unlock()
				if !ok {
					return
				}
				n, err := do(p, off)
				if errs[i] = whole(p, n, err); errs[i] != nil {
					return
				}
				mu.Lock()
				m.ops++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// batch keeps Depth operations in flight from one goroutine.
func (l *remoteLane) batch(m *meter) error {
	b := l.c.NewBatch(l.Depth)
	defer b.Close() // takes the memory back
	idle := make([]uint64, 0, l.Depth)
	for i := range l.bufs {
		idle = append(idle, uint64(i))
	}
	for {
		for _, i := range idle {
			off, ok := m.next()
			if !ok {
				break
			}
			if err := l.queue(b, i, off); err != nil {
				return err
			}
		}
		if b.Pending() == 0 {
			return nil
		}
		var err error
		if idle, err = l.reap(m, b, 1, idle[:0]); err != nil {
			return err
		}
	}
}

// bursts hands Depth operations over at once, and waits for all.
func (l *remoteLane) bursts(m *meter) error {
	b := l.c.NewBatch(l.Depth)
	defer b.Close()
	idle := make([]uint64, 0, l.Depth)
	for {
		for i := range l.bufs {
			off, ok := m.next()
			if !ok {
				return nil
			}
			if err := l.queue(b, uint64(i), off); err != nil {
				return err
			}
		}
		for b.Pending() > 0 {
			if _, err := l.reap(m, b, l.Depth, idle[:0]); err != nil {
				return err
			}
		}
	}
}

func (l *remoteLane) queue(b *lwio.Batch, i uint64, off int64) error {
	if l.Write {
		return b.Write(l.f, l.bufs[i], off, i)
	}
	return b.Read(l.f, l.bufs[i], off, i)
}

// reap waits for least operations and adds the places of all that are done to idle.
func (l *remoteLane) reap(m *meter, b *lwio.Batch, least int, idle []uint64) ([]uint64, error) {
	done, err := b.Wait(context.Background(), least)
	for i := range done {
		c := &done[i]
		if e := whole(l.bufs[c.Tag], c.N, c.Err); e != nil {
			return idle, e
		}
		idle = append(idle, c.Tag)
	}
	m.ops += int64(len(done))
	return idle, err
}

// vecs reads Depth blocks that follow each other, as if each were asked for.
func (l *remoteLane) vecs(m *meter) error {
	for off, ok := m.next(); ok; off, ok = m.next() {
		n, err := l.f.ReadVec(context.Background(), l.bufs, off)
		if err := whole(l.buf.Bytes(), n, err); err != nil {
			return err
		}
		m.ops += int64(l.Depth)
	}
	return nil
}
