package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// CPU returns the CPU time that this process and the server have used; the server's
// is negative if it is unknown.
type CPU func() (client, server time.Duration)

// Direction is the outcome of the reads or of the writes of a job.
type Direction struct {
	Operations, Bytes uint64
	Latency           *Histogram // empty if the job is untimed
}

// Result is the outcome of a job on a target.
type Result struct {
	Target, Completion string
	Took               time.Duration
	Direction          // of reads and writes together
	Reads, Writes      Direction
	Errors             uint64
	// ClientCPU and ServerCPU are the CPU time of all operations; the server's is
	// negative if it is unknown.
	ClientCPU, ServerCPU time.Duration
}

// IOPS is the rate of operations, per second.
func (r *Result) IOPS() float64 { return float64(r.Operations) / r.Took.Seconds() }

// BytesPerSecond is the rate of bytes.
func (r *Result) BytesPerSecond() float64 { return float64(r.Bytes) / r.Took.Seconds() }

// ClientPerOp is the CPU time of the client for one operation.
func (r *Result) ClientPerOp() time.Duration { return r.perOp(r.ClientCPU) }

// ServerPerOp is the CPU time of the server for one operation; negative if it is unknown.
func (r *Result) ServerPerOp() time.Duration { return r.perOp(r.ServerCPU) }

func (r *Result) perOp(d time.Duration) time.Duration {
	if d < 0 || r.Operations == 0 {
		return min(d, 0)
	}
	return d / time.Duration(r.Operations)
}

// add counts the operations of a worker.
func (d *Direction) add(t *tally) {
	d.Operations += t.operations
	d.Bytes += t.bytes
	if t.latency != nil {
		d.Latency.Merge(t.latency)
	}
}

// Run does a job on a target. A result with errors comes with the first of them.
func Run(ctx context.Context, t Target, j *Job, cpu CPU) (*Result, error) {
	conns, err := openConns(ctx, t, j)
	defer func() {
		_ = each(len(conns), func(i int) error {
			if conns[i] != nil {
				conns[i].Close()
			}
			return nil
		})
	}()
	if err != nil {
		return nil, named(t, err)
	}
	if j.verifiesWrites() {
		if err := restore(ctx, conns[0], j); err != nil {
			return nil, named(t, err)
		}
	}
	var ramped []*Worker
	if j.Ramp > 0 {
		if ramped, err = phase(ctx, conns, j, j.Ramp, rampOperations); err != nil {
			return nil, named(t, err)
		}
	}
	client, server := cpu()
	start := time.Now()
	workers, err := phase(ctx, conns, j, j.Runtime, 1)
	r := &Result{Target: t.Name(), Completion: t.Completion(), Took: time.Since(start), ServerCPU: -1}
	clientEnd, serverEnd := cpu()
	r.ClientCPU = clientEnd - client
	if server >= 0 && serverEnd >= 0 {
		r.ServerCPU = serverEnd - server
	}
	r.count(workers)
	if err == nil && j.verifiesWrites() {
		err = readBack(ctx, conns[0], j, append(ramped, workers...))
	}
	return r, named(t, err)
}

// count adds up the operations of all connections.
func (r *Result) count(workers []*Worker) {
	r.Latency, r.Reads.Latency, r.Writes.Latency = new(Histogram), new(Histogram), new(Histogram)
	for _, w := range workers {
		r.Reads.add(&w.reads)
		r.Writes.add(&w.writes)
		r.Errors += w.errors
	}
	r.Operations, r.Bytes = r.Reads.Operations+r.Writes.Operations, r.Reads.Bytes+r.Writes.Bytes
	r.Latency.Merge(r.Reads.Latency)
	r.Latency.Merge(r.Writes.Latency)
}

// phase runs the load for a time, and until each connection has begun least operations.
//
// Errors: the errors of the connections, the first error of the operations, the cause of
// ctx.
func phase(ctx context.Context, conns []Conn, j *Job, runtime time.Duration, least int) ([]*Worker, error) {
	var stop atomic.Bool
	workers, failed := make([]*Worker, len(conns)), make([]error, len(conns))
	for i := range conns {
		workers[i] = newWorker(j, i, least, &stop)
	}
	end := time.AfterFunc(runtime, func() { stop.Store(true) })
	defer end.Stop()
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() { failed[i] = c.Run(ctx, workers[i]) })
	}
	wg.Wait()
	var first error
	for _, w := range workers {
		if first == nil {
			first = w.first
		}
	}
	return workers, errors.Join(append(failed, first, context.Cause(ctx))...)
}

// dialWidth is the number of connections that are made or closed at a time.
const dialWidth = 8

// openConns makes the job's connections. After an error it returns the connections that it
// made; the others are nil.
func openConns(ctx context.Context, t Target, j *Job) ([]Conn, error) {
	conns := make([]Conn, j.Jobs)
	err := each(j.Jobs, func(i int) (err error) {
		conns[i], err = t.Open(ctx, j)
		return err
	})
	return conns, err
}

// each calls do with 0 to n-1, at most dialWidth at a time, until one fails.
func each(n int, do func(i int) error) error {
	var next atomic.Int64
	var once sync.Once
	var first error
	var wg sync.WaitGroup
	for range min(n, dialWidth) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					once.Do(func() { first = err })
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	return first
}

// named adds the target's name to an error, if the name is known.
func named(t Target, err error) error {
	if err == nil || t.Name() == "" {
		return err
	}
	return fmt.Errorf("%s: %w", t.Name(), err)
}
