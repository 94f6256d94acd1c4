package bench

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Operation is one read or write.
type Operation struct {
	Off   int64
	begun time.Time
}

// Worker gives a lane its operations and counts them. Next and Done may be called
// by several goroutines only if the lane has several; see Shared.
type Worker struct {
	Job  *Job
	stop *atomic.Bool

	mu     sync.Mutex // of Shared
	rng    *rand.Rand
	next   int64
	step   int64
	begun  bool // an operation was given
	blocks int64
	seen   Histogram
	errors uint64
	first  error // of them
	bytes  uint64
	wrote  blocks // if the job verifies writes
}

// newWorker makes the worker of lane i.
func newWorker(j *Job, i int, stop *atomic.Bool) *Worker {
	blocks := j.FileSize / int64(j.BlockSize)
	w := &Worker{Job: j, stop: stop, blocks: blocks, step: 1}
	w.rng = rand.New(rand.NewPCG(uint64(i)+1, uint64(j.BlockSize)))
	w.next = blocks * int64(i) / int64(j.Jobs) // each its own part of the file
	if j.verifiesWrites() {
		w.wrote = newBlocks(blocks)
	}
	return w
}

// Next is the next operation, which begins now; false when the time is over, but not
// before there was one.
func (w *Worker) Next(now time.Time) (Operation, bool) {
	if w.begun && w.stop.Load() {
		return Operation{}, false
	}
	w.begun = true
	block := w.next % w.blocks
	w.next++
	if w.Job.Pattern.random() {
		block = w.rng.Int64N(w.blocks)
	}
	return Operation{Off: block * int64(w.Job.BlockSize), begun: now}, true
}

// Fill makes p what an operation writes.
func (w *Worker) Fill(o Operation, p []byte) { fill(p, o.Off, written) }

// Done tells that an operation is over now; p is what was read or written.
func (w *Worker) Done(o Operation, p []byte, n int, err error, now time.Time) {
	took := now.Sub(o.begun)
	if err == nil && n < w.Job.BlockSize {
		err = fmt.Errorf("%d bytes at offset %d, not %d", n, o.Off, w.Job.BlockSize)
	}
	if err == nil && w.Job.Verify && !w.Job.Pattern.Writes() {
		err = verify(p[:n], o.Off, original)
	}
	if err != nil {
		if w.errors++; w.first == nil {
			w.first = err
		}
		return
	}
	w.seen.Add(took)
	w.bytes += uint64(n)
	if w.wrote != nil {
		w.wrote.add(o.Off / int64(w.Job.BlockSize))
	}
}

// Shared lets several goroutines use the worker: each does all that do says of one
// operation after the other.
func (w *Worker) Shared(goroutines int, do func(o Operation, p []byte) (int, error)) {
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			p := make([]byte, w.Job.BlockSize)
			for {
				w.mu.Lock()
				o, ok := w.Next(time.Now())
				w.mu.Unlock()
				if !ok {
					return
				}
				if w.Job.Pattern.Writes() {
					w.Fill(o, p)
				}
				n, err := do(o, p)
				w.mu.Lock()
				w.Done(o, p, n, err, time.Now())
				w.mu.Unlock()
			}
		})
	}
	wg.Wait()
}
