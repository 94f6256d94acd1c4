package base

import (
	"sync/atomic"

	"lwio/internal/latency"
)

// Counts are the counters of the connections of a client.
type Counts struct {
	Polled, Interrupt latency.Counter // requests of I/O, by how their answers came
	Wakeups, Spurious atomic.Uint64   // answers to INTERRUPT, and those that brought nothing
	Cancels           atomic.Uint64   // CANCEL messages
}

// Snapshot fills in the statistics.
func (k *Counts) Snapshot(s *Stats) {
	polled, interrupt := k.Polled.Snapshot(), k.Interrupt.Snapshot()
	s.Polled, s.Interrupts = polled.Count(), interrupt.Count()
	s.Latency = latency.Sum(polled, interrupt)
	s.SpuriousWakeups = k.Spurious.Load() // before Wakeups, so that it is never greater
	s.Wakeups = k.Wakeups.Load()
	s.Cancels = k.Cancels.Load()
}
