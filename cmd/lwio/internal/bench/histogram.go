package bench

import (
	"math/bits"
	"time"
)

// A histogram has subBuckets buckets for each power of two, so that a value is
// known within two percent.
const (
	subBits    = 6
	subBuckets = 1 << subBits
)

// Histogram counts durations. It belongs to one goroutine.
type Histogram struct {
	counts [64 * subBuckets]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

// bucket is the place of a duration: its highest bit, and the subBits below.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*subBuckets + int(v>>shift)&(subBuckets-1)
}

// value is the middle of a bucket.
func value(i int) time.Duration {
	if i < subBuckets {
		return time.Duration(i)
	}
	shift := i/subBuckets - 1
	return time.Duration((uint64(subBuckets+i%subBuckets) << shift) + 1<<shift/2)
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(d)]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds the durations of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count is the number of durations.
func (h *Histogram) Count() uint64 { return h.n }

// Mean is the mean duration, 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Max is the longest duration.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile is the duration that a part q of all durations do not exceed.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q*float64(h.n) + 0.5)
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return min(value(i), h.max)
		}
	}
	return h.max
}
