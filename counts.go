package lwio

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// counts are what the connections of a client count.
type counts struct {
	polled, interrupt atomic.Uint64 // I/O requests, by how their answers came
	wakeUps, spurious atomic.Uint64 // answers to INTERRUPT, and those that brought nothing
	latency           [len(Histogram{})]atomic.Uint64
}

// took counts a delay.
func (k *counts) took(ns int64) {
	k.latency[bits.Len64(uint64(max(ns, 0)))].Add(1)
}

// snapshot fills in the statistics.
func (k *counts) snapshot(s *Stats) {
	s.Polled, s.Interrupts = k.polled.Load(), k.interrupt.Load()
	s.WakeUps, s.SpuriousWakeUps = k.wakeUps.Load(), k.spurious.Load()
	for i := range k.latency {
		s.Latency[i] = k.latency[i].Load()
	}
}

// Histogram counts delays: entry i those of at least 2^(i-1) and less than 2^i
// nanoseconds, entry 0 those of 0.
type Histogram [65]uint64

// Count is how many delays were counted.
func (h *Histogram) Count() (n uint64) {
	for _, k := range h {
		n += k
	}
	return n
}

// Quantile is a delay that the part q of all, from 0 to 1, did not exceed, rounded up
// to a power of two of nanoseconds; 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(min(max(q, 0), 1) * float64(h.Count()))
	for i, k := range h {
		if k > 0 && k >= rank {
			return time.Duration(1) << min(i, 62)
		}
		rank -= min(k, rank)
	}
	return 0
}
