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
	// connections that passed AUTH, Sessions the SMB sessions of known users.
	SMB, RDMA, Authenticated, Sessions int
	// SMBAccepted and SMBRefused count SMB connections; one that had to make way for
	// another was accepted.
	SMBAccepted, SMBRefused uint64
	// SMBReads and SMBWrites are the I/O that went over SMB.
	SMBReads, SMBWrites Count
	// OpenFiles are open now, of MaxOpenFiles that may be.
	OpenFiles, MaxOpenFiles int
	// SkippedEntries are those that listings of directories left out: SMB cannot carry
	// their names, or they are never served.
	SkippedEntries uint64
	// Locks of byte ranges are held now, and LockWaits waited for, of MaxLocks together
	// that may be; LockWaited are those that ever were waited for.
	Locks, LockWaits, MaxLocks int
	LockWaited                 uint64
	// SMBMemory is taken by long SMB messages now, ReadMemory by reads over RDMA, in
	// bytes, of MaxSMBMemory and MaxReadMemory.
	SMBMemory, MaxSMBMemory, ReadMemory, MaxReadMemory int64
	// SMBAuthFailures counts failed SMB authentications; SMBAuthLimited counts those of them
	// whose password was not compared, after too many wrong ones. BadSignatures counts SMB
	// messages with a wrong signature.
	SMBAuthFailures, SMBAuthLimited, BadSignatures uint64
	// Accepted and Rejected count RDMA connections, AuthFailures those that
	// failed AUTH, Cut those that the server ended for a violation or a stall, Lost
	// those that broke: not those whose client left, or logged off.
	Accepted, Rejected, AuthFailures, Cut, Lost uint64
	Traffic
	// Inline are the reads that the page cache answered at once; Direct those of
	// them that went from there to the client without a buffer of the server.
	Inline, Direct uint64
	// Immediate are the reads that were completed by immediate data.
	Immediate uint64
	// Lent are the writes whose data went to the file from the client's memory.
	Lent uint64
	// Registrations and Closes are of file ids; Files are registered now.
	Registrations, Closes uint64
	Files                 int
	// Cancels are CANCEL messages, Cancelled the operations that they ended before
	// anybody had begun with them.
	Cancels, Cancelled uint64
	// Wakeups answer INTERRUPT.
	Wakeups uint64
	// Slowed are the requests that waited because their user's came too fast, or moved
	// too much, over SMB and RDMA. Crowded are the RDMA connections that were refused
	// because their user has too many.
	Slowed, Crowded uint64
	// Credits are granted now, of CreditBudget.
	Credits, CreditBudget int
	// ReadQueue and WriteQueue are the operations that wait for a worker now.
	ReadQueue, WriteQueue int
	// Repeats are writes that were sent again on a new connection and had been
	// done before.
	Repeats uint64
	// SequenceGaps are requests whose number was not the one after the last.
	SequenceGaps uint64
}

// counter is a Count that changes.
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

// counters are what Stats reports of the LWIO side.
type counters struct {
	connections, unauthenticated, authenticated, files, credits atomic.Int64

	accepted, rejected, authFailures, cut, lost          atomic.Uint64
	registrations, closes, wakeups, gaps, inline, direct atomic.Uint64
	repeats, cancels, cancelled, immediate, lent         atomic.Uint64
	slowed, crowded                                      atomic.Uint64
	traffic
}

func (c *counters) snapshot() Stats {
	return Stats{
		RDMA: int(c.connections.Load()), Authenticated: int(c.authenticated.Load()),
		Accepted: c.accepted.Load(), Rejected: c.rejected.Load(),
		AuthFailures: c.authFailures.Load(), Cut: c.cut.Load(), Lost: c.lost.Load(),
		Traffic: c.traffic.snapshot(), Inline: c.inline.Load(), Direct: c.direct.Load(),
		Registrations: c.registrations.Load(), Closes: c.closes.Load(),
		Files: int(c.files.Load()), Wakeups: c.wakeups.Load(),
		Immediate: c.immediate.Load(), Lent: c.lent.Load(), Cancels: c.cancels.Load(), Cancelled: c.cancelled.Load(),
		Slowed: c.slowed.Load(), Crowded: c.crowded.Load(),
		Credits: int(c.credits.Load()), SequenceGaps: c.gaps.Load(), Repeats: c.repeats.Load(),
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
