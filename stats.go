package lwio

import (
	"time"

	"lwio/internal/latency"
)

// Stats are the counters of a client since it was dialled.
type Stats struct {
	// RDMA and SMB count the reads and writes over each.
	RDMA, SMB Traffic
	// Credits is how many messages may be in flight on the RDMA connections, 0
	// without any; InFlight is how many calls are in flight on them or wait for a
	// credit.
	Credits, InFlight int
	// Polled and Interrupts count the requests of I/O that were answered over RDMA, by
	// how: with a status block or with a message.
	Polled, Interrupts uint64
	// WakeUps is how often the server was asked to wake a poller that fell asleep, and
	// did; SpuriousWakeUps how often nothing was left to see then. [OP-93f]
	WakeUps, SpuriousWakeUps uint64
	// Cancels is how often the server was asked to give up requests that no call waited for any
	// more.
	Cancels uint64
	// Latency counts requests of I/O by how long they took from the post until the
	// answer was seen.
	Latency Histogram
	// CPU is the time that this process has spent so far, in user code and in the
	// kernel; 0 where the system does not tell.
	CPU time.Duration
	// Connections is how many RDMA connections were made, Lost how many of them
	// broke, and Reconnects how many took the place of one that broke.
	Connections, Lost, Reconnects uint64
	// ReplayedReads counts reads that went on over another connection when theirs broke,
	// ReplayedWrites the messages with parts of writes that were sent again, under their
	// old number, to be done once.
	ReplayedReads, ReplayedWrites uint64
}

// Histogram counts delays.
type Histogram = latency.Histogram

// Traffic counts calls that succeeded, also in part, and their bytes, and operations of
// batches.
type Traffic struct {
	Reads, Writes           uint64
	ReadBytes, WrittenBytes uint64
}
