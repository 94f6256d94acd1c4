// Package latency counts durations in powers of two of nanoseconds. It is coarse, and cheap
// enough for every request.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the number of buckets of a Histogram.
const Buckets = 65

// Histogram counts durations. Counts[i] counts durations of at least 2^(i-1) and less than
// 2^i nanoseconds, Counts[0] durations of 0. The zero value is empty.
type Histogram struct {
	Counts [Buckets]uint64
	// Sum is the sum of all durations.
	Sum time.Duration
}

// Bound is the upper bound of the durations in a bucket, at most the largest time.Duration.
func Bound(bucket int) time.Duration { return time.Duration(1) << min(bucket, 62) }

// Count is the number of counted durations.
func (h *Histogram) Count() (n uint64) {
	for _, k := range h.Counts {
		n += k
	}
	return n
}

// Quantile is the duration that the part q of all durations, from 0 to 1, did not exceed,
// rounded up to a power of two of nanoseconds; 0 for no durations.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(min(max(q, 0), 1) * float64(h.Count()))
	for i, k := range h.Counts {
		if k > 0 && k >= rank {
			return Bound(i)
		}
		rank -= min(k, rank)
	}
	return 0
}

// Sum adds two histograms.
func Sum(a, b Histogram) Histogram {
	for i, k := range b.Counts {
		a.Counts[i] += k
	}
	a.Sum += b.Sum
	return a
}

// Counter counts durations for a Histogram. It is safe for concurrent use.
type Counter struct {
	counts [Buckets]atomic.Uint64
	sum    atomic.Int64
}

// ObserveMany counts a duration n times. A negative duration counts as 0.
func (c *Counter) ObserveMany(d time.Duration, n int) {
	d = max(d, 0)
	c.counts[bits.Len64(uint64(d))].Add(uint64(n))
	c.sum.Add(int64(d) * int64(n))
}

// Snapshot is the state so far.
func (c *Counter) Snapshot() (h Histogram) {
	for i := range c.counts {
		h.Counts[i] = c.counts[i].Load()
	}
	h.Sum = time.Duration(c.sum.Load())
	return h
}
