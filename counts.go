package lwio

import (
	"sync/atomic"

	"lwio/internal/latency"
)

// counts are what the connections of a client count.
type counts struct {
	polled, interrupt atomic.Uint64 // I/O requests, by how their answers came
	wakeUps, spurious atomic.Uint64 // answers to INTERRUPT, and those that brought nothing
	cancels           atomic.Uint64 // CANCEL messages
	latency           latency.Counter
}

// snapshot fills in the statistics.
func (k *counts) snapshot(s *Stats) {
	s.Polled, s.Interrupts = k.polled.Load(), k.interrupt.Load()
	s.WakeUps, s.SpuriousWakeUps = k.wakeUps.Load(), k.spurious.Load()
	s.Cancels = k.cancels.Load()
	s.Latency = k.latency.Snapshot()
}
