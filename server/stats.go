package server

import "sync/atomic"

// Count is a number of operations and their bytes.
type Count struct {
	Operations, Bytes uint64
}

// Stats is a snapshot of the state and the counters of a server. The fields of type int and
// int64 are current values; the others count since the start.
type Stats struct {
	// SMB and RDMA are the connections. Authenticated are the RDMA connections that passed
	// AUTH, Sessions the SMB sessions of known users.
	SMB, RDMA, Authenticated, Sessions int
	// SMBAccepted and SMBRefused count SMB connections. A connection that was evicted later
	// counts as accepted.
	SMBAccepted, SMBRefused uint64
	// SMBReads and SMBWrites count the I/O over SMB.
	SMBReads, SMBWrites Count
	// OpenFiles are the open files, at most MaxOpenFiles.
	OpenFiles, MaxOpenFiles int
	// SkippedEntries counts the entries that directory listings left out, because SMB cannot
	// carry their names or they are never served.
	SkippedEntries uint64
	// Locks are the byte-range locks held, and LockWaits the requests that wait for one,
	// together at most MaxLocks. LockWaited counts the requests that had to wait.
	Locks, LockWaits, MaxLocks int
	LockWaited                 uint64
	// SMBMemory is the memory of long SMB messages, at most MaxSMBMemory, and ReadMemory that
	// of reads over RDMA, at most MaxReadMemory; in bytes.
	SMBMemory, MaxSMBMemory, ReadMemory, MaxReadMemory int64
	// SMBAuthFailures counts failed SMB authentications; SMBAuthLimited counts those of them
	// whose password was not compared, after too many wrong ones. BadSignatures counts SMB
	// messages with a wrong signature.
	SMBAuthFailures, SMBAuthLimited, BadSignatures uint64
	// Accepted and Rejected count RDMA connections; Rejected are those above
	// Limits.Connections. AuthFailures counts those that failed AUTH, UserLimited those that
	// were refused in AUTH by Limits.ConnectionsPerUser, Cut those that the server ended for a
	// violation or a stall, and Lost those that broke, without those whose client left or
	// logged off.
	Accepted, Rejected, AuthFailures, UserLimited, Cut, Lost uint64
	Traffic
	// Inline counts the reads that the page cache answered at once, Direct those of them whose
	// data went from there to the client without a buffer of the server.
	Inline, Direct uint64
	// Immediate counts the reads that were completed by immediate data.
	Immediate uint64
	// ByReference counts the writes whose data went to the file from the client's memory.
	ByReference uint64
	// Files are the registered files. Registrations and Closes count REGISTER and CLOSE.
	Files                 int
	Registrations, Closes uint64
	// Cancels counts CANCEL, and Cancelled the operations that it ended before a worker had
	// started them.
	Cancels, Cancelled uint64
	// Wakeups counts the answers to INTERRUPT.
	Wakeups uint64
	// Throttled counts the requests, over SMB and RDMA, that waited because of
	// Limits.RequestRate or Limits.ByteRate.
	Throttled uint64
	// Credits are the granted credits, at most CreditBudget, but one for each connection.
	Credits, CreditBudget int
	// ReadQueue and WriteQueue are the operations that wait for a worker.
	ReadQueue, WriteQueue int
	// Replays counts the writes that were sent again on a new connection and had been
	// performed before.
	Replays uint64
	// SequenceGaps counts the requests whose Sequence did not follow the last one.
	SequenceGaps uint64
}

// counter is a Count that changes. Safe for concurrent use.
type counter struct{ ops, bytes atomic.Uint64 }

func (c *counter) addMany(ops int, bytes uint64) {
	c.ops.Add(uint64(ops))
	c.bytes.Add(bytes)
}

func (c *counter) add(n uint32) {
	c.ops.Add(1)
	c.bytes.Add(uint64(n))
}

func (c *counter) snapshot() Count { return Count{Operations: c.ops.Load(), Bytes: c.bytes.Load()} }

// counters are the part of Stats that the engine keeps. Safe for concurrent use.
type counters struct {
	connections, unauthenticated, authenticated, files, credits atomic.Int64

	accepted, rejected, authFailures, userLimited, cut, lost atomic.Uint64
	registrations, closes, wakeups, gaps, inline, direct     atomic.Uint64
	replays, cancels, cancelled, immediate, byReference      atomic.Uint64
	throttled                                                atomic.Uint64
	traffic
}

func (c *counters) snapshot() Stats {
	return Stats{
		RDMA: int(c.connections.Load()), Authenticated: int(c.authenticated.Load()),
		Accepted: c.accepted.Load(), Rejected: c.rejected.Load(), UserLimited: c.userLimited.Load(),
		AuthFailures: c.authFailures.Load(), Cut: c.cut.Load(), Lost: c.lost.Load(),
		Traffic: c.traffic.snapshot(), Inline: c.inline.Load(), Direct: c.direct.Load(),
		Registrations: c.registrations.Load(), Closes: c.closes.Load(),
		Files: int(c.files.Load()), Wakeups: c.wakeups.Load(),
		Immediate: c.immediate.Load(), ByReference: c.byReference.Load(), Cancels: c.cancels.Load(), Cancelled: c.cancelled.Load(),
		Throttled: c.throttled.Load(), Credits: int(c.credits.Load()), SequenceGaps: c.gaps.Load(), Replays: c.replays.Load(),
	}
}

// take counts up to limit; false if the limit was reached.
func take(n *atomic.Int64, limit int) bool {
	if n.Add(1) <= int64(limit) {
		return true
	}
	n.Add(-1)
	return false
}
