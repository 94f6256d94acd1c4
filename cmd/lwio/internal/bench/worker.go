package bench

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// rampOperations is the least number of operations of a connection before it is measured:
// with a thousand connections each does few operations in a ramp time that suffices for one
// connection.
const rampOperations = 64

// Operation is one read or write.
type Operation struct {
	Off   int64
	Write bool
	begun time.Time
}

// tally counts the successful operations of one direction.
type tally struct {
	operations, bytes uint64
	latency           *Histogram // nil if the job is untimed
}

// Worker gives a connection its operations and counts them. Next and Done may be called
// by several goroutines only through Calls.
type Worker struct {
	Job  *Job
	stop *atomic.Bool

	rng    *rand.Rand
	next   int64 // block of the next sequential operation
	blocks int64 // at which an operation may begin
	given  int   // operations that Next returned
	least  int   // operations that are given even after the time
	reads  tally
	writes tally
	errors uint64
	first  error  // the first of the errors
	wrote  blocks // if the job verifies writes
}

// newWorker makes the worker of connection i.
func newWorker(j *Job, i, least int, stop *atomic.Bool) *Worker {
	all := j.FileSize / int64(j.BlockSize)
	w := &Worker{Job: j, stop: stop, blocks: all - j.width() + 1, least: least}
	w.rng = rand.New(rand.NewPCG(uint64(i)+1, uint64(j.BlockSize)))
	w.next = all * int64(i) / int64(j.Jobs) // each its own part of the file
	if j.verifiesWrites() {
		w.wrote = newBlocks(all)
	}
	if !j.Untimed {
		w.reads.latency, w.writes.latency = new(Histogram), new(Histogram)
	}
	return w
}

// Now is the time, or zero if the job is untimed.
func (w *Worker) Now() time.Time {
	if w.Job.Untimed {
		return time.Time{}
	}
	return time.Now()
}

// Next returns the next operation, which begins now. It returns false when the time is
// over, though not before the least number of operations.
func (w *Worker) Next(now time.Time) (Operation, bool) {
	if w.given >= w.least && w.stop.Load() {
		return Operation{}, false
	}
	w.given++
	block := w.next % w.blocks
	w.next += w.Job.width()
	if w.Job.Pattern.random() {
		block = w.rng.Int64N(w.blocks)
	}
	write := w.Job.Pattern.Writes()
	if w.Job.Pattern.mixed() {
		write = w.rng.IntN(100) >= w.Job.ReadPercent
	}
	return Operation{Off: block * int64(w.Job.BlockSize), Write: write, begun: now}, true
}

// Fill gives p the content that an operation is to write. Without verification p keeps the
// content that it has.
func (w *Worker) Fill(o Operation, p []byte) {
	if o.Write && w.Job.Verify {
		fill(p, o.Off, written)
	}
}

// Done counts an operation that is complete now; p is its block.
func (w *Worker) Done(o Operation, p []byte, n int, err error, now time.Time) {
	if err == nil && n < w.Job.BlockSize {
		err = fmt.Errorf("%d bytes at offset %d, not %d", n, o.Off, w.Job.BlockSize)
	}
	if err == nil && w.Job.Verify && !o.Write {
		err = w.verify(p[:n], o.Off)
	}
	if err != nil {
		if w.errors++; w.first == nil {
			w.first = err
		}
		return
	}
	t := &w.reads
	if o.Write {
		t = &w.writes
		if w.wrote != nil {
			w.wrote.add(o.Off / int64(w.Job.BlockSize))
		}
	}
	t.operations++
	t.bytes += uint64(n)
	if t.latency != nil {
		t.latency.Add(now.Sub(o.begun))
	}
}

// verify checks a block that was read; beside writes it may have been written.
func (w *Worker) verify(p []byte, off int64) error {
	if w.Job.Pattern.mixed() {
		return verify(p, off, original, written)
	}
	return verify(p, off, original)
}

// Calls does the operations by calling do, from one goroutine for each block of memory.
func (w *Worker) Calls(mem [][]byte, do func(o Operation, p []byte) (int, error)) {
	if len(mem) == 1 {
		for {
			o, ok := w.Next(w.Now())
			if !ok {
				return
			}
			w.Fill(o, mem[0])
			n, err := do(o, mem[0])
			w.Done(o, mem[0], n, err, w.Now())
		}
	}
	var mu sync.Mutex // guards w
	var wg sync.WaitGroup
	for _, p := range mem {
		wg.Go(func() {
			for {
				mu.Lock()
				o, ok := w.Next(w.Now())
				mu.Unlock()
				if !ok {
					return
				}
				w.Fill(o, p)
				n, err := do(o, p)
				mu.Lock()
				w.Done(o, p, n, err, w.Now())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
