package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// Summary is the outcome of several runs of a job on one target: medians, and the
// latencies of all of them.
type Summary struct {
	Target, Completion       string
	IOPS, BytesPerSecond     float64
	P50                      time.Duration // the median of the runs' medians
	ClientPerOp, ServerPerOp time.Duration // the server's is negative if it is unknown
	Took                     time.Duration // of all runs
	Errors                   uint64
	// Direction counts all operations of all runs, Reads and Writes the operations of one
	// direction.
	Direction
	Reads, Writes Direction
	// Failure is the reason for missing figures.
	Failure error
}

// Compare does a job on several targets in turns, rounds times, each round in a random
// order. A target that fails has its Failure set and is left out of the following rounds.
// Only the end of ctx ends the comparison. A file to read is read once before, so no target
// waits for the disk.
func Compare(ctx context.Context, targets []Target, j *Job, rounds int, cpu CPU, progress func(Target)) ([]Summary, error) {
	if j.Pattern.Reads() {
		warm(ctx, targets, j)
	}
	runs := make([][]*Result, len(targets))
	failure := make([]error, len(targets))
	for range rounds {
		for _, i := range rand.Perm(len(targets)) {
			if failure[i] != nil {
				continue
			}
			progress(targets[i])
			r, err := Run(ctx, targets[i], j, cpu)
			if e := context.Cause(ctx); e != nil {
				return nil, e
			}
			if failure[i] = err; err == nil {
				runs[i] = append(runs[i], r)
			}
		}
	}
	all := make([]Summary, len(targets))
	for i, t := range targets {
		all[i] = summarize(t, runs[i])
		all[i].Failure = failure[i]
	}
	return all, nil
}

// Summarize is the summary of one run, which may have failed.
func Summarize(t Target, r *Result, err error) Summary {
	var runs []*Result
	if r != nil {
		runs = append(runs, r)
	}
	s := summarize(t, runs)
	s.Failure = err
	return s
}

func summarize(t Target, runs []*Result) Summary {
	s := Summary{Target: t.Name(), Completion: t.Completion()}
	s.Latency, s.Reads.Latency, s.Writes.Latency = new(Histogram), new(Histogram), new(Histogram)
	if len(runs) == 0 {
		return s
	}
	for _, r := range runs {
		s.Direction.merge(&r.Direction)
		s.Reads.merge(&r.Reads)
		s.Writes.merge(&r.Writes)
		s.Errors += r.Errors
		s.Took += r.Took
	}
	s.IOPS = median(runs, (*Result).IOPS)
	s.BytesPerSecond = median(runs, (*Result).BytesPerSecond)
	s.ClientPerOp = median(runs, (*Result).ClientPerOp)
	s.ServerPerOp = median(runs, (*Result).ServerPerOp)
	s.P50 = median(runs, func(r *Result) time.Duration { return r.Latency.Quantile(0.5) })
	return s
}

// merge adds the operations of another run.
func (d *Direction) merge(o *Direction) {
	d.Operations += o.Operations
	d.Bytes += o.Bytes
	d.Latency.Merge(o.Latency)
}

// median is the median of a figure of the runs.
func median[T float64 | time.Duration](runs []*Result, figure func(*Result) T) T {
	var v []T
	for _, r := range runs {
		v = append(v, figure(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// Err joins the failures of all targets.
func Err(all []Summary) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Failure)
	}
	return errors.Join(errs...)
}
