package server

import "sync/atomic"

// Count is how often something was done, and with how many bytes.
type Count struct {
	Operations, Bytes uint64
}

// Stats is a snapshot of counters. What is "now" falls again, all else counts
// since the start.
type Stats struct {
	// SMB and RDMA are the connections now; Authenticated are those RDMA
	// connections that passed AUTH.
	SMB, RDMA, Authenticated int
	// Accepted and Rejected count RDMA connections, AuthFailures those that
	// failed AUTH, Cut those that the server ended for a violation or a stall.
	Accepted, Rejected, AuthFailures, Cut uint64
	// Reads, Writes, VectoredReads and VectoredWrites were answered, failures
	// included; Failures are those of them that had an error status.
	Reads, Writes, VectoredReads, VectoredWrites Count
	Failures                                     uint64
	// Inline are the reads that the page cache answered at once.
	Inline uint64
	// Registrations and Closes are of file ids; Files are registered now.
	Registrations, Closes uint64
	Files                 int
	// Wakeups answer INTERRUPT, Credits are the credits granted now.
	Wakeups uint64
	Credits int
	// SequenceGaps are requests whose number was not the one after the last.
	SequenceGaps uint64
}

// counter is a Count that changes.
type counter struct{ ops, bytes atomic.Uint64 }

func (c *counter) add(n uint32) {
	c.ops.Add(1)
	c.bytes.Add(uint64(n))
}

func (c *counter) snapshot() Count { return Count{Operations: c.ops.Load(), Bytes: c.bytes.Load()} }

// counters are what Stats reports of the LWIO side.
type counters struct {
	connections, unauthenticated, authenticated, files, credits atomic.Int64

	accepted, rejected, authFailures, cut atomic.Uint64
	registrations, closes, wakeups, gaps  atomic.Uint64
	failures, inline                      atomic.Uint64
	reads, writes, vecReads, vecWrites    counter
}

func (c *counters) snapshot() Stats {
	return Stats{
		RDMA: int(c.connections.Load()), Authenticated: int(c.authenticated.Load()),
		Accepted: c.accepted.Load(), Rejected: c.rejected.Load(),
		AuthFailures: c.authFailures.Load(), Cut: c.cut.Load(),
		Reads: c.reads.snapshot(), Writes: c.writes.snapshot(),
		VectoredReads: c.vecReads.snapshot(), VectoredWrites: c.vecWrites.snapshot(),
		Failures: c.failures.Load(), Inline: c.inline.Load(),
		Registrations: c.registrations.Load(), Closes: c.closes.Load(),
		Files: int(c.files.Load()), Wakeups: c.wakeups.Load(),
		Credits: int(c.credits.Load()), SequenceGaps: c.gaps.Load(),
	}
}

// take counts up to limit; false says that the limit was reached.
func take(n *atomic.Int64, limit int) bool {
	if n.Add(1) <= int64(limit) {
		return true
	}
	n.Add(-1)
	return false
}
