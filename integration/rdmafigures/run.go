package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"lwio/integration/internal/measure"
)

// patience is how long one run may take; what is that slow has missed every bar.
const patience = 2 * time.Minute

// conductor starts the two processes of each run.
type conductor struct {
	cores [2]int
	scale float64
	procs int // GOMAXPROCS of all jobs, unless 0
}

// run is what one run of a job gave: the active side's outcome, then the passive's.
type run [2]outcome

// each is the time that one operation took.
func (r run) each() float64 { return float64(r[0].Took) / float64(r[0].Ops) }

// run carries a job out once.
func (c conductor) run(j job) (r run, err error) {
	j.Count = max(int(float64(j.Count)*c.scale), 1)
	if c.procs != 0 {
		j.Procs = c.procs
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	common, err := openCommon()
	if err != nil {
		return r, err
	}
	defer closeAll(common)
	pair := measure.Pair{Cores: c.cores, Procs: max(j.Procs, 1), Files: common}
	err = pair.Run(ctx, j, func(addr string) any {
		j.Active, j.Peer = true, addr
		return j
	}, [2]any{&r[0], &r[1]})
	if ctx.Err() != nil {
		return r, fmt.Errorf("not done after %v", patience)
	}
	return r, err
}

// commonSize is the size of the memory that both processes of a run map.
const commonSize = 64 << 20

// openCommon makes what both processes of a run inherit, for the floors: shared
// memory, and an eventfd for each to sleep on.
func openCommon() ([]*os.File, error) {
	fd, err := unix.MemfdCreate("rdmafigures", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	files := []*os.File{os.NewFile(uintptr(fd), "memory")}
	if err := files[0].Truncate(commonSize); err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	for range 2 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("eventfd: %w", err), closeAll(files))
		}
		files = append(files, os.NewFile(uintptr(fd), "event"))
	}
	return files, nil
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
