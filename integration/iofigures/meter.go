package main

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// meter gives a lane its offsets, and counts. It belongs to one goroutine.
type meter struct {
	rng    *rand.Rand
	size   int64
	blocks int64
	end    time.Time
	least  int64 // before so many operations the time is not over
	every  int64 // the clock is looked at once in so many operations
	asked  int64 // operations since then
	over   bool  // the time is
	ops    int64
	delays []uint32 // how often an operation took so many nanoseconds; nil: not timed
}

// longest is the delay in nanoseconds from which on all are counted as one.
const longest = 1 << 20

// unlooked is for how many operations of all lanes together nobody looks at the clock, where
// they are small and each is asked for by itself.
const unlooked = 64

// newMeter makes the meter of a lane; operations of size bytes lie on its multiples.
func (j job) newMeter(i int, runtime time.Duration) *meter {
	m := &meter{
		rng: rand.New(rand.NewPCG(uint64(i)+1, uint64(j.Size))), size: int64(j.Size), blocks: j.Span / int64(j.Size),
		end: time.Now().Add(runtime), every: 1,
	}
	if j.Style == vec { // the first of so many blocks
		m.blocks -= int64(j.Depth) - 1
	}
	if j.Size < 64<<10 && j.Style != burst && j.Style != vec {
		m.every = max(unlooked/int64(max(j.Lanes, 1)), 1)
	}
	if j.timed() {
		m.delays = make([]uint32, longest)
	}
	return m
}

// timed tells whether each operation is timed, which costs as much as a tenth of a
// local read.
func (j job) timed() bool { return j.Depth == 1 && j.Lanes <= 1 }

// next is the offset of the next operation; false when the time is over, from then on.
func (m *meter) next() (int64, bool) {
	if m.asked++; m.asked == m.every {
		m.asked, m.over = 0, m.ops >= m.least && !time.Now().Before(m.end)
	}
	if m.over {
		return 0, false
	}
	return m.rng.Int64N(m.blocks) * m.size, true
}

// do does one operation after the other.
func (m *meter) do(op func(off int64) error) error {
	for off, ok := m.next(); ok; off, ok = m.next() {
		if m.delays == nil {
			if err := op(off); err != nil {
				return err
			}
		} else {
			start := time.Now()
			if err := op(off); err != nil {
				return err
			}
			m.delays[min(time.Since(start), longest-1)]++
		}
		m.ops++
	}
	return nil
}

// add takes in what another meter saw.
func (m *meter) add(o *meter) {
	m.ops += o.ops
	m.delays = o.delays // only a lane that is alone has them
}

// median is that of the delays, 0 without any.
func (m *meter) median() time.Duration {
	half := (m.ops + 1) / 2
	for d, n := range m.delays {
		if half -= int64(n); half <= 0 {
			return time.Duration(d)
		}
	}
	return 0
}

// phase runs all lanes for a while, and until each has done so many operations.
func (j job) phase(lanes []lane, runtime time.Duration, least int64) (*meter, error) {
	meters, errs := make([]*meter, len(lanes)), make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		meters[i] = j.newMeter(i, runtime)
		meters[i].least = least
		wg.Go(func() { errs[i] = l.run(meters[i]) })
	}
	wg.Wait()
	var all meter
	for _, m := range meters {
		all.add(m)
	}
	return &all, errors.Join(errs...)
}
