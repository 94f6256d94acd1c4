package base

import (
	"net/netip"
	"sync/atomic"
	"time"

	"lwio/internal/latency"
)

// Stats has the fields of lwio.Stats.
type Stats struct {
	RDMA, SMB                     Traffic
	Credits, InFlight             int
	Polled, Interrupts            uint64
	Wakeups, SpuriousWakeups      uint64
	Cancels                       uint64
	Latency                       Histogram
	ProcessCPU                    time.Duration
	Connects, Lost, Reconnects    uint64
	ReplayedReads, ReplayedWrites uint64
	SMBReconnects, Reclaimed      uint64
	FileCalls                     uint64
}

// SessionState is the state of an SMB session.
type SessionState struct {
	// Reconnects counts the sessions that replaced a lost one, Reclaimed the opens that they took
	// over.
	Reconnects, Reclaimed uint64
	// Away is why there is no session at present; nil if there is one.
	Away error
	// Server is the address where the server was reached last; the zero Addr if it is unknown.
	Server netip.Addr
}

// Histogram counts the latencies of requests.
type Histogram = latency.Histogram

// Traffic has the fields of lwio.Traffic.
type Traffic struct {
	Reads, Writes           uint64
	ReadBytes, WrittenBytes uint64
}

// TrafficCounter is a Traffic that changes. Safe for concurrent use.
type TrafficCounter struct {
	Reads, writes, ReadBytes, writtenBytes atomic.Uint64
}

// Read counts a read of n bytes.
func (t *TrafficCounter) Read(n int) {
	t.Reads.Add(1)
	t.ReadBytes.Add(uint64(n))
}

// Wrote counts a write of n bytes.
func (t *TrafficCounter) Wrote(n int) {
	t.writes.Add(1)
	t.writtenBytes.Add(uint64(n))
}

// Snapshot returns the counts so far.
func (t *TrafficCounter) Snapshot() Traffic {
	return Traffic{t.Reads.Load(), t.writes.Load(), t.ReadBytes.Load(), t.writtenBytes.Load()}
}
