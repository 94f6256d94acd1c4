package sides

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"lwio"
	"lwio/integration/internal/measure"
)

// OfServer runs a benchmark of one side, whose server is not a side: 'lwio serve', whose process is ServerPID, with
// the share at Peer and a file in it.
func (j Job) OfServer(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	j.Active, j.Count = true, l.Scale(j.Count)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out outcome
	pair := measure.Pair{Cores: [2]int{l.Client, l.Server}, Procs: 1}
	if err := pair.Alone(ctx, j, &out); err != nil {
		return nil, err
	}
	ops := float64(out.Ops)
	return measure.Sample{
		measure.Rate: ops / out.Took.Seconds(), measure.P50: float64(out.P50),
		measure.ClientCPU: float64(out.CPU) / ops, measure.ServerCPU: float64(out.ServerCPU) / ops,
	}, nil
}

// opens opens the file and closes it.
func (s *side) opens() error {
	return s.withFile(func(ctx context.Context, c *lwio.Client, _ *lwio.File, _ int) error {
		f, err := c.OpenFile(ctx, s.File, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// locks locks a range of the file, and unlocks it.
func (s *side) locks() error {
	return s.withFile(func(ctx context.Context, _ *lwio.Client, f *lwio.File, i int) error {
		r := lwio.Range{Off: uint64(i), Len: 1}
		if err := f.TryLock(ctx, r, lwio.LockExclusive); err != nil {
			return err
		}
		return f.Unlock(ctx, r)
	})
}

// withFile connects to the server over SMB alone and opens the file. Then Flight goroutines repeat do, each with a
// number of its own, and the file.
func (s *side) withFile(do func(ctx context.Context, c *lwio.Client, f *lwio.File, i int) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg := &lwio.Config{SMBOnly: true}
	if !s.Durable {
		cfg.ReconnectTimeout = -1
	}
	c, err := lwio.Dial(ctx, s.Peer, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	f, err := c.OpenFile(ctx, s.File, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = s.servedPhases(func(i int) error { return do(ctx, c, f, i) })
	if reconnects := c.Stats().SMBReconnects; err == nil && reconnects > 0 {
		err = fmt.Errorf("the connection was lost %d times", reconnects)
	}
	return err
}

// divide has Flight goroutines do ops operations, and times each. do gets the number of its goroutine.
func (s *side) divide(ops int, do func(i int) error) error {
	delays, failed := make([][]time.Duration, s.Flight), make(chan error, s.Flight)
	for i := range s.Flight {
		go func() {
			var err error
			for n := i; n < ops && err == nil; n += s.Flight {
				begin := time.Now()
				err = do(i)
				delays[i] = append(delays[i], time.Since(begin))
			}
			failed <- err
		}()
	}
	var errs []error
	for range s.Flight {
		errs = append(errs, <-failed)
	}
	for _, d := range delays {
		s.delays = append(s.delays, d...)
	}
	return errors.Join(errs...)
}
