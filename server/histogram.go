package server

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencyBuckets is the number of a histogram's buckets: up to 4.2 s, and what
// took longer.
const latencyBuckets = 24

// Histogram is how long operations took, from the arrival of the request to its
// answer. Buckets[i] counts those that took less than LatencyBound(i) and not
// less than the bound before; the last bucket has no bound.
type Histogram struct {
	Buckets [latencyBuckets]uint64
	Sum     time.Duration
}

// LatencyBound is the upper bound of a bucket of a Histogram: 1 µs for the first,
// and twice as long for each that follows.
func LatencyBound(bucket int) time.Duration { return time.Microsecond << bucket }

// histogram is a Histogram that changes.
type histogram struct {
	buckets [latencyBuckets]atomic.Uint64
	sum     atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	us := uint64(max(d, 0) / time.Microsecond)
	h.buckets[min(bits.Len64(us), latencyBuckets-1)].Add(1)
	h.sum.Add(int64(max(d, 0)))
}

func (h *histogram) snapshot() Histogram {
	var s Histogram
	for i := range h.buckets {
		s.Buckets[i] = h.buckets[i].Load()
	}
	s.Sum = time.Duration(h.sum.Load())
	return s
}
