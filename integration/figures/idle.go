package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"lwio"
	"lwio/integration/internal/measure"
)

// idle measures the memory of a server whose connections have read once and are idle.
type idle struct {
	Via   string
	Conns int
}

// Run makes the connections to a server of its own.
func (j idle) Run(ctx context.Context, l *measure.Lab) (_ measure.Sample, err error) {
	name, err := makeFile(l, false)
	if err != nil {
		return nil, err
	}
	key := serverKey(binary(l), l.Server, false)
	if err := l.Drop(key); err != nil {
		return nil, err
	}
	s, err := server(l, binary(l), l.Server, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Drop(key)) }()
	empty := measure.Resident(s.PID())
	clients, errs := make([]*lwio.Client, j.Conns), make([]error, j.Conns)
	each := func(do func(i int) error) error {
		const width = 8 // at a time
		var wg sync.WaitGroup
		for w := range width {
			wg.Go(func() {
				for i := w; i < j.Conns; i += width {
					errs[i] = do(i)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	defer func() {
		err = errors.Join(err, each(func(i int) error {
			if clients[i] == nil {
				return nil
			}
			return clients[i].Close()
		}))
	}()
	err = each(func(i int) (err error) {
		clients[i], err = readOnce(ctx, s.At+"?provider="+j.Via, filepath.Base(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	full := measure.Resident(s.PID())
	return measure.Sample{
		measure.ServerMemory: float64(full-empty) / float64(j.Conns), measure.TotalMemory: float64(full),
	}, nil
}

// readOnce connects, and reads a block.
func readOnce(ctx context.Context, url, name string) (*lwio.Client, error) {
	return readBlock(ctx, url, name, &lwio.Config{RequireRDMA: true})
}

// readBlock connects with a configuration, and reads a block.
func readBlock(ctx context.Context, url, name string, cfg *lwio.Config) (*lwio.Client, error) {
	c, err := lwio.Dial(ctx, url, cfg)
	if err != nil {
		return nil, err
	}
	f, err := c.Open(ctx, name)
	if err == nil {
		_, err = f.ReadAtContext(ctx, make([]byte, 4*kib), 0)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
