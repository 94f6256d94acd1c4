package server

import "sync/atomic"

// Count is a number of operations and their bytes.
type Count struct {
	Operations, Bytes uint64
}

// Stats is a snapshot of a server: plain data, one field for each metric. The fields of type int and
// int64 are current values; the others count since the start. Server.Resources has the parts of limited
// resources that peers hold.
type Stats struct {
	SMBStats
	DurableStats
	RDMAStats
	// SkippedEntries counts the directory entries that listings left out, because SMB cannot
	// carry their names or they are never served.
	SkippedEntries uint64
	// WaitingLocks is the number of requests that wait for a byte-range lock. LockWaits counts the
	// requests that had to wait.
	WaitingLocks int
	LockWaits    uint64
	// Leases is the number of leases and oplocks of SMB clients. LeaseBreaks counts their breaks, and
	// LeasesRevoked the leases whose holders did not acknowledge a break.
	Leases                     int
	LeaseBreaks, LeasesRevoked uint64
	// Throttled counts the requests, over SMB and RDMA, that waited because of
	// Limits.RequestRate or Limits.ByteRate.
	Throttled uint64
}

// SMBStats is the part of Stats about SMB.
type SMBStats struct {
	// SMBConnections are the connections, Sessions the sessions of known users.
	SMBConnections, Sessions int
	// SMBAccepted and SMBRefused count connections. A connection that was evicted later counts as
	// accepted.
	SMBAccepted, SMBRefused uint64
	// SMBReads and SMBWrites count the I/O over SMB.
	SMBReads, SMBWrites Count
	// SMBAuthFailures counts failed authentications. SMBAuthLimited counts those of them that were
	// refused without a comparison of the password, see Limits.AuthFailures. BadSignatures counts
	// messages with a wrong signature.
	SMBAuthFailures, SMBAuthLimited, BadSignatures uint64
}

// DurableStats is the part of Stats about clients that have lost the SMB connection, and about the
// opens that wait for them.
type DurableStats struct {
	// Suspended is the number of SMB sessions whose clients have lost the connection and are awaited,
	// and Orphans the number of their opens.
	Suspended, Orphans int
	// Resumed counts the sessions that continued a suspended one, and Reclaimed the orphans that their
	// clients have taken over. OrphansExpired counts the orphans whose time ended, and OrphansRefused
	// the opens that were closed with their connection because of Limits.Orphans. OrphansSurrendered counts the
	// orphans that were closed for an open or a change of another client.
	Resumed, Reclaimed, OrphansExpired, OrphansRefused, OrphansSurrendered uint64
	// Restored is the number of opens that the server took from Config.StateDir at its start, and
	// NotRestored the number of those that it could not open again.
	Restored, NotRestored int
	// StateRecords and StateBytes are the size of the state, in records and in bytes of its files.
	// StateFailing: the state was found damaged, its last record could not be written, or its last
	// compaction failed and the files grow.
	StateRecords int
	StateBytes   int64
	StateFailing bool
	// WriteLogFailing: the log of the writes of an RDMA connection could not be made, written or read, and none could be made
	// since. The writes in flight of that connection are uncertain after a restart.
	WriteLogFailing bool
}

// RDMAStats is the part of Stats about RDMA connections.
type RDMAStats struct {
	// Connections are the connections, Authenticated those that passed AUTH. Displaced are
	// connections that were evicted before AUTH and have not released all their resources. They
	// are not among Connections.
	Connections, Authenticated, Displaced int
	// Accepted counts connections, Rejected those beyond Limits.Connections. AuthFailures
	// counts the connections that failed AUTH, UserLimited those that AUTH refused because of
	// Limits.ConnectionsPerUser. Cut counts those that the server ended for a violation or a
	// stall, Lost those that broke without a close or a logoff of the client, that ended before
	// AUTH, and sealed ones that ended without the last message of the client.
	Accepted, Rejected, AuthFailures, UserLimited, Cut, Lost uint64
	// Traffic counts the I/O.
	Traffic
	// InlineReads counts the reads that the page cache answered at once, DirectReads those of
	// them whose data went to the client without a buffer of the server.
	InlineReads, DirectReads uint64
	// ImmediateReads counts the reads that completed by immediate data, see
	// Config.ImmediateData.
	ImmediateReads uint64
	// ByReferenceWrites counts the writes whose data went to the file from the client's memory.
	ByReferenceWrites uint64
	// Files is the number of registered files. Registrations and Closes count REGISTER and CLOSE
	// messages.
	Files                 int
	Registrations, Closes uint64
	// Cancels counts CANCEL messages, Cancelled the operations that they ended before a worker
	// had begun them.
	Cancels, Cancelled uint64
	// Wakeups counts the answers to INTERRUPT messages.
	Wakeups uint64
	// Credits is the number of granted credits.
	Credits int
	// ReadQueue, WriteQueue and SyncQueue are the numbers of operations that wait for a worker.
	ReadQueue, WriteQueue, SyncQueue int
	// FileCalls counts the LOCK, UNLOCK, SYNC, SETSIZE, STAT and LOOKUP messages that were answered, and FileCallFailures
	// the answers to them with an error status. Syncs counts the calls of fsync for SYNC messages: one serves all that
	// wait for it.
	FileCalls, FileCallFailures, Syncs uint64
	// Replays counts the writes that were sent again on a new connection and had been done
	// before.
	Replays uint64
	// SequenceGaps counts the requests whose sequence number did not follow the previous one.
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

// counters are the part of RDMAStats that the engine keeps, and the requests that it throttled. Safe for concurrent use.
type counters struct {
	connections, unauthenticated, displaced, authenticated, files, credits atomic.Int64

	accepted, rejected, authFailures, userLimited, cut, lost atomic.Uint64
	registrations, closes, wakeups, gaps, inline, direct     atomic.Uint64
	replays, cancels, cancelled, immediate, byReference      atomic.Uint64
	throttled, calls, callFailures, syncs                    atomic.Uint64
	traffic
}

func (c *counters) snapshot() RDMAStats {
	return RDMAStats{
		Connections: int(c.connections.Load()), Displaced: int(c.displaced.Load()), Authenticated: int(c.authenticated.Load()),
		Accepted: c.accepted.Load(), Rejected: c.rejected.Load(), UserLimited: c.userLimited.Load(),
		AuthFailures: c.authFailures.Load(), Cut: c.cut.Load(), Lost: c.lost.Load(),
		Traffic: c.traffic.snapshot(), InlineReads: c.inline.Load(), DirectReads: c.direct.Load(),
		Registrations: c.registrations.Load(), Closes: c.closes.Load(),
		Files: int(c.files.Load()), Wakeups: c.wakeups.Load(),
		ImmediateReads: c.immediate.Load(), ByReferenceWrites: c.byReference.Load(), Cancels: c.cancels.Load(), Cancelled: c.cancelled.Load(),
		Credits: int(c.credits.Load()), SequenceGaps: c.gaps.Load(), Replays: c.replays.Load(),
		FileCalls: c.calls.Load(), FileCallFailures: c.callFailures.Load(), Syncs: c.syncs.Load(),
	}
}

// stats returns the part of Stats about RDMA.
func (e *engine) stats() RDMAStats {
	st := e.count.snapshot()
	st.ReadQueue, st.WriteQueue, st.SyncQueue = e.readers.length(), e.writers.length(), e.syncers.length()
	return st
}
