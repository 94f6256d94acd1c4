package main

import (
	"context"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

// tcpJob is a floor over TCP, on the lab's file if it needs one.
type tcpJob struct {
	sides.Job
	needsFile bool
}

// Run does the job once.
func (j tcpJob) Run(ctx context.Context, l *measure.Lab) (_ measure.Sample, err error) {
	if j.needsFile {
		if j.File, err = makeFile(l, false); err != nil {
			return nil, err
		}
	}
	return j.Job.Run(ctx, l)
}

// prepareIO builds the programs of the rows of file I/O.
func prepareIO(l *measure.Lab, _ options) ([]measure.Row, error) { return ioRows, build(l) }
