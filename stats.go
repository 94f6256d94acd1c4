package lwio

import (
	"time"

	"lwio/internal/latency"
)

// Stats are the counters of a client since Dial. Credits and InFlight are current values.
type Stats struct {
	// RDMA and SMB count the reads and writes over each.
	RDMA, SMB Traffic
	// Credits is the number of messages that may be in flight on the RDMA connections, 0
	// without a connection. InFlight is the number of requests on them that are in flight or
	// wait for a credit.
	Credits, InFlight int
	// Polled counts the requests of I/O over RDMA that completed with a status block, or on a sealed
	// connection while a call busy-polled; Interrupts counts the others.
	Polled, Interrupts uint64
	// Wakeups counts the wake-ups that the client asked the server for and received.
	// SpuriousWakeups counts those of them after which there was no completion. [OP-93f]
	Wakeups, SpuriousWakeups uint64
	// Cancels counts the CANCEL messages, which end requests that no call waits for.
	Cancels uint64
	// Latency counts the requests of I/O over RDMA by their latency, from the post to the
	// moment when the client sees the completion.
	Latency Histogram
	// ProcessCPU is the CPU time of this process in user code and in the kernel, 0 where the
	// system does not report it.
	ProcessCPU time.Duration
	// Connects counts the RDMA connections that were made, Lost those that broke, and
	// Reconnects those that replaced a broken one.
	Connects, Lost, Reconnects uint64
	// ReplayedReads counts the reads that were sent again after their connection broke.
	// ReplayedWrites counts the messages of writes that were sent again under their old
	// sequence number.
	ReplayedReads, ReplayedWrites uint64
	// SMBReconnects counts the SMB sessions that replaced a lost one. Reclaimed counts the open files
	// that such a session took over, with their locks.
	SMBReconnects, Reclaimed uint64
	// FileCalls counts the locks, unlocks and syncs of open files, and the descriptions of files, open or by name,
	// that the server has answered over RDMA. The others went over SMB.
	FileCalls uint64
}

// Histogram counts durations in buckets by powers of two. It has:
//
//   - Counts, an array of uint64: Counts[i] is the number of durations from 2^(i-1)
//     nanoseconds to less than 2^i, and Counts[0] the number of durations of 0.
//   - Sum, the time.Duration of all durations together.
//   - Count() uint64, the number of durations.
//   - Quantile(q float64) time.Duration, the upper bound of the bucket that holds quantile q,
//     from 0 to 1; 0 for an empty Histogram.
type Histogram = latency.Histogram

// Traffic counts reads and writes, calls and operations of batches alike, that succeeded in
// full or in part, and their bytes.
type Traffic struct {
	Reads, Writes           uint64
	ReadBytes, WrittenBytes uint64
}
