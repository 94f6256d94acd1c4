package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"lwio"
	"lwio/integration/internal/measure"
)

const (
	idleConnections = 1000
	idleEach        = 256 * kib // beyond the granted buffers, of which an idle connection uses none
	idleAll         = 400 * mib
)

// idleMemory measures what connections cost a server that have read once and have
// nothing to do.
func idleMemory(ctx context.Context, l *lab) ([]verdict, error) {
	var all []verdict
	for _, way := range []string{wayIWARP, wayShm} {
		v, err := l.idleBy(ctx, way)
		if err != nil {
			v = []verdict{{Ours: way, Figure: space, Bar: fmt.Sprintf("%s %d MiB", atMost, idleAll/mib), Missing: err.Error()}}
		}
		all = append(all, v...)
	}
	return all, nil
}

// idleBy measures one provider, on a server of its own.
func (l *lab) idleBy(ctx context.Context, way string) (all []verdict, err error) {
	j := deep.via(way, adaptive)
	j.File = l.file
	if err := l.dropServer(j); err != nil {
		return nil, err
	}
	s, err := l.lwioServer(j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.dropServer(j)) }()
	empty := measure.Resident(s.cmd.Process.Pid)
	made, errs := make([]*lwio.Client, idleConnections), make([]error, idleConnections)
	defer func() {
		measure.Each(len(made), dialling, func(i int) {
			if made[i] != nil {
				errs[i] = made[i].Close()
			}
		})
		err = errors.Join(append(errs, err)...)
	}()
	measure.Each(len(made), dialling, func(i int) { made[i], errs[i] = readOnce(ctx, s.at, way, l.file) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	full := measure.Resident(s.cmd.Process.Pid)
	each := float64(full-empty) / idleConnections
	return []verdict{
		{
			Ours: way + ", one connection", Figure: space, Value: each / kib, Unit: "KiB",
			Bar: fmt.Sprintf("%s %d KiB", atMost, idleEach/kib), Pass: each <= idleEach,
		},
		{
			Ours: fmt.Sprintf("%s, the server with %d", way, idleConnections), Figure: space, Value: float64(full) / mib, Unit: "MiB",
			Beside: "without", Other: float64(empty) / mib, Bar: fmt.Sprintf("%s %d MiB", atMost, idleAll/mib), Pass: full <= idleAll,
		},
	}, nil
}

// dropServer ends the server of a job.
func (l *lab) dropServer(j job) error { return l.drop(l.serverKey(j)) }

// readOnce connects, and reads a block.
func readOnce(ctx context.Context, url, way, file string) (*lwio.Client, error) {
	c, err := lwio.Dial(ctx, url+"?provider="+way, &lwio.Config{RequireRDMA: true})
	if err != nil {
		return nil, err
	}
	f, err := c.Open(ctx, filepath.Base(file))
	if err == nil {
		_, err = f.ReadAtContext(ctx, make([]byte, 4*kib), 0)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
