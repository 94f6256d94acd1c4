package server

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"lwio/internal/latency"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// Traffic counts the I/O that was answered, failures included. Failures counts the answers with
// an error status.
type Traffic struct {
	Reads, Writes, VectoredReads, VectoredWrites Count
	Failures                                     uint64
}

// ShareStats is the LWIO traffic of a share. ReadLatency and WriteLatency include vectored
// reads and writes.
type ShareStats struct {
	Share string
	Traffic
	ReadLatency, WriteLatency Histogram
}

// Histogram counts operations by their latency, from the arrival of the request to its answer. It
// is the type lwio.Histogram, whose comment lists its fields and methods.
type Histogram = latency.Histogram

// ConnectionStats is a snapshot of one authenticated RDMA connection.
type ConnectionStats struct {
	// ID numbers connections in the order of arrival.
	ID uint64
	// Provider is the fabric, Client the client's address there, and User its user. A string
	// that is not UTF-8, as a client may cause, is quoted as in Go.
	Provider, Client, User string
	// Since is the time of AUTH.
	Since time.Time
	// Files are the registered files, Pending the outstanding requests, Credits the granted
	// credits.
	Files, Pending, Credits int
	Traffic
	// ReadLatency and WriteLatency cover I/O on registered files, as in ShareStats.
	ReadLatency, WriteLatency Latency
}

// Latency is the sum of the latencies of operations, from the arrival of the request to its
// answer, and their number.
type Latency struct {
	Operations uint64
	Sum        time.Duration
}

// latencySum is a Latency that changes. Safe for concurrent use.
type latencySum struct {
	operations atomic.Uint64
	sum        atomic.Int64
}

// observe counts n operations that each took so long.
func (l *latencySum) observe(took time.Duration, n int) {
	l.operations.Add(uint64(n))
	l.sum.Add(int64(max(took, 0)) * int64(n))
}

func (l *latencySum) snapshot() Latency {
	return Latency{Operations: l.operations.Load(), Sum: time.Duration(l.sum.Load())}
}

// traffic is a Traffic that changes, with a counter for each opcode of I/O. Safe for concurrent
// use.
type traffic struct {
	ops      [wire.OpVecWrite + 1]counter
	failures counter
}

func (t *traffic) add(op wire.Opcode, bytes uint32, status ntstatus.Status) {
	t.ops[op].add(bytes)
	if status != ntstatus.Success {
		t.failures.add(0)
	}
}

func (t *traffic) snapshot() Traffic {
	return Traffic{
		Reads: t.ops[wire.OpRead].snapshot(), Writes: t.ops[wire.OpWrite].snapshot(),
		VectoredReads: t.ops[wire.OpVecRead].snapshot(), VectoredWrites: t.ops[wire.OpVecWrite].snapshot(),
		Failures: t.failures.ops.Load(),
	}
}

// connTraffic is the traffic of a connection.
type connTraffic struct {
	traffic
	reads, writes latencySum
}

// shareTraffic is a ShareStats that changes. Safe for concurrent use.
type shareTraffic struct {
	traffic
	reads, writes latency.Counter
}

// shareTable holds the traffic of each share that was ever used. Safe for concurrent use.
type shareTable struct {
	mu     sync.Mutex
	byName map[string]*shareTraffic
}

func (t *shareTable) get(name string) *shareTraffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byName[name]
	if s == nil {
		s = new(shareTraffic)
		if t.byName == nil {
			t.byName = make(map[string]*shareTraffic)
		}
		t.byName[name] = s
	}
	return s
}

func (t *shareTable) snapshot() []ShareStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]ShareStats, 0, len(t.byName))
	for name, s := range t.byName {
		all = append(all, ShareStats{
			Share: legible(name), Traffic: s.traffic.snapshot(), ReadLatency: s.reads.Snapshot(), WriteLatency: s.writes.Snapshot(),
		})
	}
	slices.SortFunc(all, func(a, b ShareStats) int { return strings.Compare(a.Share, b.Share) })
	return all
}

// count counts o if it is I/O. It is answered.
func (o *op) count() {
	if !o.io {
		return
	}
	if o.h.Opcode.FileCall() {
		o.countCall()
		return
	}
	o.c.engine.count.add(o.h.Opcode, o.info, o.status)
	o.c.traffic.add(o.h.Opcode, o.info, o.status)
	if o.file != nil {
		o.file.traffic.add(o.h.Opcode, o.info, o.status)
	}
}

// tally collects counts of the receive loop: reads of one file that the page cache answered, and the
// latencies of answers that are posted together. The loop adds them to the shared counters after
// the post, so no client waits for that.
type tally struct {
	file   *registeredFile
	n      int
	direct int // reads of n that went straight from the file
	sum    uint64
	delays []delay // its memory is reused
}

// delay is the latency of n operations that arrived together.
type delay struct {
	to      stopwatch
	arrived time.Duration // on the engine's clock
	n       int
}

// stopwatch refers to the latency counters of a share and of a connection.
type stopwatch struct {
	share *latency.Counter
	conn  *latencySum
}

func (w stopwatch) observe(took time.Duration, n int) {
	w.share.ObserveMany(took, n)
	w.conn.observe(took, n)
}

// add counts a read of n bytes of a file; direct is 1 if they went straight from the file, else 0.
func (y *tally) add(e *engine, c *conn, f *registeredFile, n uint32, direct int) {
	if y.file != f {
		y.count(e, c)
		y.file = f
	}
	y.n++
	y.direct += direct
	y.sum += uint64(n)
}

// countInline counts a part that the page cache answered. The tally counts a READ, because a READ
// has one part.
func (o *op) countInline() {
	c := o.c
	if o.h.Opcode == wire.OpRead && o.status == ntstatus.Success {
		c.tally.add(c.engine, c, o.file, o.info, 0)
		return
	}
	c.engine.count.inline.Add(1)
	if !o.data.more {
		o.count()
	}
}

// stopwatch returns the latency counters of o; false if its latency is not counted.
func (o *op) stopwatch() (w stopwatch, ok bool) {
	switch {
	case o.file == nil || !o.io || o.data.more || o.h.Opcode.FileCall():
		return stopwatch{}, false
	case o.h.Opcode == wire.OpWrite || o.h.Opcode == wire.OpVecWrite:
		return stopwatch{&o.file.traffic.writes, &o.c.traffic.writes}, true
	}
	return stopwatch{&o.file.traffic.reads, &o.c.traffic.reads}, true
}

// observe counts the time since the arrival of o until now, on the engine's clock.
func (o *op) observe(now time.Duration) {
	if to, ok := o.stopwatch(); ok {
		to.observe(now-o.arrived, 1)
	}
}

// delay notes the latency of o, whose answer is about to be posted.
func (y *tally) delay(o *op) {
	to, ok := o.stopwatch()
	if !ok {
		return
	}
	if n := len(y.delays); n > 0 && y.delays[n-1].to == to && y.delays[n-1].arrived == o.arrived {
		y.delays[n-1].n++
		return
	}
	y.delays = append(y.delays, delay{to, o.arrived, 1})
}

// empty adds the tally to the counters.
func (y *tally) empty(e *engine, c *conn) {
	y.count(e, c)
	if len(y.delays) == 0 {
		return
	}
	now := e.clock()
	for i := range y.delays {
		d := &y.delays[i]
		d.to.observe(now-d.arrived, d.n)
	}
	y.delays = y.delays[:0]
}

func (y *tally) count(e *engine, c *conn) {
	if y.n > 0 {
		e.count.inline.Add(uint64(y.n))
		if y.direct > 0 {
			e.count.direct.Add(uint64(y.direct))
		}
		for _, t := range [...]*traffic{&e.count.traffic, &c.traffic.traffic, &y.file.traffic.traffic} {
			t.ops[wire.OpRead].addMany(y.n, y.sum)
		}
	}
	y.file, y.n, y.direct, y.sum = nil, 0, 0, 0
}

// Shares returns the traffic of each share that LWIO was used on.
func (s *Server) Shares() []ShareStats { return s.engine.shares.snapshot() }

// Connections lists the authenticated RDMA connections, the oldest first.
func (s *Server) Connections() []ConnectionStats {
	conns := s.engine.conns.authenticated()
	all := make([]ConnectionStats, 0, len(conns))
	for _, c := range conns {
		all = append(all, c.stats())
	}
	slices.SortFunc(all, func(a, b ConnectionStats) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (c *conn) stats() ConnectionStats {
	return ConnectionStats{
		ID: c.entry.number, Provider: c.fabric.name, Client: legible(c.peer.name), User: legible(c.auth.lineage.User()), Since: c.auth.since,
		Files: c.files.len(), Pending: int(c.send.wakeups.pending.Load()), Credits: c.credits.granted(), Traffic: c.traffic.snapshot(),
		ReadLatency: c.traffic.reads.snapshot(), WriteLatency: c.traffic.writes.snapshot(),
	}
}

// legible returns a name as UTF-8, for readers of statistics that do not check it.
func legible(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}
