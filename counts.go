package lwio

import (
	"math/bits"
	"sync/atomic"
)

// counts are what a connection counts.
type counts struct {
	polled, interrupt atomic.Uint64 // I/O requests, by how their answers came
	wakeUps, spurious atomic.Uint64 // answers to INTERRUPT, and those that brought nothing
	latency           histogram
}

// histogram counts delays in buckets of powers of two of nanoseconds.
type histogram [64]atomic.Uint64

func (h *histogram) add(ns int64) { h[bits.Len64(uint64(max(ns, 0)))&63].Add(1) }
