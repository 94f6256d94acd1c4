package lwio

import (
	"sync/atomic"

	"lwio/internal/latency"
)

// counts are what the connections of a client count.
type counts struct {
	polled, interrupt latency.Counter // requests of I/O, by how their answers came
	wakeUps, spurious atomic.Uint64   // answers to INTERRUPT, and those that brought nothing
	cancels           atomic.Uint64   // CANCEL messages
}

// snapshot fills in the statistics.
func (k *counts) snapshot(s *Stats) {
	polled, interrupt := k.polled.Snapshot(), k.interrupt.Snapshot()
	s.Polled, s.Interrupts = polled.Count(), interrupt.Count()
	s.Latency = latency.Sum(polled, interrupt)
	s.SpuriousWakeUps = k.spurious.Load() // before those that they are of: there are never more
	s.WakeUps = k.wakeUps.Load()
	s.Cancels = k.cancels.Load()
}
