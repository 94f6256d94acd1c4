package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// CPU tells how much CPU time this process and the server have used; the server's
// is negative if it cannot be told.
type CPU func() (client, server time.Duration)

// Result is what a job did on a target.
type Result struct {
	Target, Completion string
	Took               time.Duration
	Operations, Bytes  uint64
	Errors             uint64
	Latency            *Histogram
	// ClientCPU and ServerCPU are the CPU time of all operations; the server's is
	// negative if it cannot be told.
	ClientCPU, ServerCPU time.Duration
}

// IOPS is the rate of operations, a second.
func (r *Result) IOPS() float64 { return float64(r.Operations) / r.Took.Seconds() }

// BytesPerSecond is the rate of bytes.
func (r *Result) BytesPerSecond() float64 { return float64(r.Bytes) / r.Took.Seconds() }

// ClientPerOp and ServerPerOp are the CPU times of one operation.
func (r *Result) ClientPerOp() time.Duration { return r.perOp(r.ClientCPU) }

// ServerPerOp is negative if it cannot be told.
func (r *Result) ServerPerOp() time.Duration { return r.perOp(r.ServerCPU) }

func (r *Result) perOp(d time.Duration) time.Duration {
	if d < 0 || r.Operations == 0 {
		return min(d, 0)
	}
	return d / time.Duration(r.Operations)
}

// Run does a job on a target. A result with errors comes with the first of them.
func Run(ctx context.Context, t Target, j *Job, cpu CPU) (*Result, error) {
	lanes, err := openLanes(ctx, t, j)
	defer func() {
		for _, l := range lanes {
			l.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	if j.verifiesWrites() {
		if err := restore(ctx, lanes[0], j); err != nil {
			return nil, named(t, err)
		}
	}
	var stop atomic.Bool
	workers := make([]*Worker, len(lanes))
	for i := range lanes {
		workers[i] = newWorker(j, i, &stop)
	}
	end := time.AfterFunc(j.Runtime, func() { stop.Store(true) })
	defer end.Stop()
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	client, server := cpu()
	start := time.Now()
	failed := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() { failed[i] = l.Run(ctx, workers[i]) })
	}
	wg.Wait()
	r := &Result{Target: t.Name(), Completion: t.Completion(), Took: time.Since(start), Latency: new(Histogram)}
	clientEnd, serverEnd := cpu()
	r.ClientCPU, r.ServerCPU = clientEnd-client, -1
	if server >= 0 && serverEnd >= 0 {
		r.ServerCPU = serverEnd - server
	}
	var first error
	for _, w := range workers {
		r.Latency.Merge(&w.seen)
		r.Operations += w.seen.Count()
		r.Bytes += w.bytes
		r.Errors += w.errors
		if first == nil {
			first = w.first
		}
	}
	err = errors.Join(append(failed, first, context.Cause(ctx))...)
	if err == nil && j.verifiesWrites() {
		err = readBack(ctx, lanes[0], j, workers)
	}
	if err != nil {
		err = named(t, err)
	}
	return r, err
}

// openLanes opens the job's connections; what is open is returned in any case.
func openLanes(ctx context.Context, t Target, j *Job) (lanes []Lane, err error) {
	for range j.Jobs {
		l, err := t.Open(ctx, j)
		if err != nil {
			return lanes, named(t, err)
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

// named says which target failed, if that is known by then.
func named(t Target, err error) error {
	if t.Name() == "" {
		return err
	}
	return fmt.Errorf("%s: %w", t.Name(), err)
}
