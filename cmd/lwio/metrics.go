package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"lwio/internal/latency"
	"lwio/server"
)

// metric describes a metric of the server.
func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("lwio_"+name, help, labels, nil)
}

// The metrics of the server.
var (
	metricConnections = metric("connections", "Connections now.", "kind")
	metricByProvider  = metric("provider_connections", "Authenticated RDMA connections now.", "provider")
	metricUnreported  = metric("unreported_connections", "Authenticated RDMA connections without metrics of their own.")
	metricSMB         = metric("smb_connections_total", "SMB connections, by their outcome.", "outcome")
	metricSMBOps      = metric("smb_operations_total", "Reads and writes over SMB.", "op")
	metricSMBBytes    = metric("smb_bytes_total", "Bytes read or written over SMB.", "op")
	metricSkipped     = metric("skipped_entries_total", "Entries of directories that listings left out.")
	metricWaiting     = metric("waiting_locks", "Byte-range locks that wait now.")
	metricLockWaits   = metric("lock_waits_total", "Byte-range locks that waited.")
	metricLeases      = metric("leases", "Leases and oplocks of SMB clients now.")
	metricBreaks      = metric("lease_breaks_total", "Breaks of leases and oplocks.")
	metricRevoked     = metric("leases_revoked_total", "Leases and oplocks whose clients did not acknowledge a break.")
	metricCharged     = metric("charged", "Part of a resource that peers hold now.", "resource")
	metricChargedMost = metric("charged_user", "Part of a resource that the user with the largest part holds now.", "resource")
	metricLimit       = metric("charged_limit", "Part of a resource that all peers may hold.", "resource")
	metricUserLimit   = metric("charged_user_limit", "Part of a resource that each user may hold.", "resource")
	metricSessions    = metric("sessions", "Authenticated SMB sessions now.")
	metricSuspended   = metric("suspended_sessions", "SMB sessions that wait for their clients now.")
	metricResumed     = metric("resumed_sessions_total", "SMB sessions that continued a suspended one.")
	metricOrphanEnds  = metric("orphaned_opens_total", "Open files whose clients had lost the SMB connection, by their outcome.", "outcome")
	metricRestored    = metric("restored_opens", "Open files of the state when the server started, by their outcome.", "outcome")
	metricState       = metric("state_records", "Records of opens and locks in the state now.")
	metricStateBytes  = metric("state_bytes", "Size of the state in its files.")
	metricStateFails  = metric("state_failing", "1 while the state is damaged, or cannot be written or compacted.")
	metricWritesFail  = metric("write_log_failing", "1 while the log of writes of a connection cannot be made or written.")
	metricFiles       = metric("files", "Files registered now.")
	metricCredits     = metric("credits", "Credits granted now, of all connections.")
	metricCalls       = metric("file_calls_total", "Locks, unlocks, syncs, truncations and descriptions of open files over RDMA.")
	metricCallFails   = metric("file_call_failures_total", "Answers to them with an error status.")
	metricSyncs       = metric("file_syncs_total", "Calls of fsync for syncs over RDMA; one serves all that wait for it.")
	metricQueue       = metric("queue_depth", "Operations that wait for a worker now.", "pool")
	metricRDMA        = metric("rdma_connections_total", "RDMA connections, by their outcome.", "outcome")
	metricAuth        = metric("auth_failures_total", "Authentications that failed.", "protocol")
	metricAuthLimited = metric("auth_limited_total", "SMB authentications refused before the password was compared, after too many failures.")
	metricSignatures  = metric("bad_signatures_total", "SMB messages with a wrong signature.")
	metricThrottled   = metric("throttled_total", "Requests that waited for the rate of their user.")
	metricWakeups     = metric("wakeups_total", "Sleeping clients that were woken.")
	metricCancelled   = metric("cancelled_total", "I/O that clients canceled before the server began it.")
	metricInline      = metric("inline_reads_total", "Reads that the page cache answered at once.")
	metricDirect      = metric("direct_reads_total", "Reads from the page cache straight into the client's memory.")

	metricOps      = metric("operations_total", "I/O answered, failures included.", "share", "op")
	metricBytes    = metric("bytes_total", "Bytes read or written.", "share", "op")
	metricFailures = metric("failures_total", "I/O that ended with an error status.", "share")
	metricLatency  = metric("latency_seconds", "Time from the arrival of a request to its answer.", "share", "op")

	connectionLabels   = []string{"connection", "client", "user", "provider"}
	metricConnOps      = metric("connection_operations_total", "I/O of a connection.", append(connectionLabels, "op")...)
	metricConnBytes    = metric("connection_bytes_total", "Bytes of a connection.", append(connectionLabels, "op")...)
	metricConnFailures = metric("connection_failures_total", "Failures of a connection.", connectionLabels...)
	metricConnLatency  = metric("connection_latency_seconds", "Time from the arrival of a request to its answer.", append(connectionLabels, "op")...)
	metricConnPending  = metric("connection_queue_depth", "Requests outstanding now.", connectionLabels...)
	metricConnCredits  = metric("connection_credits", "Credits granted now.", connectionLabels...)
	metricConnFiles    = metric("connection_files", "Files registered now.", connectionLabels...)
)

// collector turns the server's counters into metrics for each scrape.
type collector struct{ srv *server.Server }

// Describe sends the descriptions of the metrics that Collect sends.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect sends the metrics of one scrape.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	o := output(ch)
	st := c.srv.Stats()
	o.smb(&st.SMBStats)
	o.durable(&st.DurableStats)
	o.rdma(&st.RDMAStats)
	o.counter(metricSkipped, st.SkippedEntries)
	o.gauge(metricWaiting, st.WaitingLocks)
	o.counter(metricLockWaits, st.LockWaits)
	o.gauge(metricLeases, st.Leases)
	o.counter(metricBreaks, st.LeaseBreaks)
	o.counter(metricRevoked, st.LeasesRevoked)
	o.counter(metricThrottled, st.Throttled)
	o.shares(c.srv.Shares())
	o.resources(c.srv.Resources())
	o.connections(c.srv.Connections())
}

// smb writes the metrics of SMB.
func (o output) smb(st *server.SMBStats) {
	o.gauge(metricConnections, st.SMBConnections, "smb")
	o.gauge(metricSessions, st.Sessions)
	o.counter(metricSMB, st.SMBAccepted, "accepted")
	o.counter(metricSMB, st.SMBRefused, "refused")
	for op, n := range map[string]server.Count{"read": st.SMBReads, "write": st.SMBWrites} {
		o.counter(metricSMBOps, n.Operations, op)
		o.counter(metricSMBBytes, n.Bytes, op)
	}
	o.counter(metricAuth, st.SMBAuthFailures, "smb")
	o.counter(metricAuthLimited, st.SMBAuthLimited)
	o.counter(metricSignatures, st.BadSignatures)
}

// durable writes the metrics of lost clients and their opens.
func (o output) durable(st *server.DurableStats) {
	o.gauge(metricSuspended, st.Suspended)
	o.counter(metricResumed, st.Resumed)
	o.counter(metricOrphanEnds, st.Reclaimed, "reclaimed")
	o.counter(metricOrphanEnds, st.OrphansExpired, "expired")
	o.counter(metricOrphanEnds, st.OrphansRefused, "refused")
	o.counter(metricOrphanEnds, st.OrphansSurrendered, "surrendered")
	o.gauge(metricRestored, st.Restored, "restored")
	o.gauge(metricRestored, st.NotRestored, "refused")
	o.gauge(metricState, st.StateRecords)
	o.gauge(metricStateBytes, int(st.StateBytes))
	o.gauge(metricStateFails, flag(st.StateFailing))
	o.gauge(metricWritesFail, flag(st.WriteLogFailing))
}

// flag is the value of a metric that is 1 or 0.
func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// rdma writes the metrics of all RDMA connections together.
func (o output) rdma(st *server.RDMAStats) {
	o.gauge(metricConnections, st.Connections-st.Authenticated, "rdma_unauthenticated")
	o.gauge(metricConnections, st.Displaced, "rdma_displaced")
	o.gauge(metricConnections, st.Authenticated, "rdma")
	o.gauge(metricFiles, st.Files)
	o.gauge(metricCredits, st.Credits)
	o.gauge(metricQueue, st.ReadQueue, "read")
	o.gauge(metricQueue, st.WriteQueue, "write")
	o.gauge(metricQueue, st.SyncQueue, "sync")
	o.counter(metricCalls, st.FileCalls)
	o.counter(metricCallFails, st.FileCallFailures)
	o.counter(metricSyncs, st.Syncs)
	o.counter(metricRDMA, st.Accepted, "accepted")
	o.counter(metricRDMA, st.Rejected, "rejected")
	o.counter(metricRDMA, st.UserLimited, "user_limited")
	o.counter(metricRDMA, st.Cut, "cut")
	o.counter(metricRDMA, st.Lost, "lost")
	o.counter(metricAuth, st.AuthFailures, "lwio")
	o.counter(metricWakeups, st.Wakeups)
	o.counter(metricCancelled, st.Cancelled)
	o.counter(metricInline, st.InlineReads)
	o.counter(metricDirect, st.DirectReads)
}

// shares writes the metrics of the shares.
func (o output) shares(all []server.ShareStats) {
	for _, s := range all {
		o.traffic(metricOps, metricBytes, s.Traffic, s.Share)
		o.counter(metricFailures, s.Failures, s.Share)
		o.latency(metricLatency, s.ReadLatency, s.Share, "read")
		o.latency(metricLatency, s.WriteLatency, s.Share, "write")
	}
}

// resources writes the parts of limited resources that peers hold.
func (o output) resources(all []server.Resource) {
	for _, r := range all {
		o.gauge(metricCharged, int(r.Held), r.Name)
		o.gauge(metricChargedMost, int(r.UserHeld), r.Name)
		o.gauge(metricLimit, int(r.Limit), r.Name)
		o.gauge(metricUserLimit, int(r.UserLimit), r.Name)
	}
}

// maxSeries bounds the connections with metrics of their own. The oldest connections have
// them.
const maxSeries = 256

// connections writes the metrics of the RDMA connections.
func (o output) connections(all []server.ConnectionStats) {
	by := make(map[string]int)
	for _, s := range all {
		by[s.Provider]++
	}
	for provider, n := range by {
		o.gauge(metricByProvider, n, provider)
	}
	reported := all[:min(len(all), maxSeries)]
	o.gauge(metricUnreported, len(all)-len(reported))
	for _, s := range reported {
		labels := []string{strconv.FormatUint(s.ID, 10), s.Client, s.User, s.Provider}
		o.traffic(metricConnOps, metricConnBytes, s.Traffic, labels...)
		o.counter(metricConnFailures, s.Failures, labels...)
		o.mean(metricConnLatency, s.ReadLatency, append(labels, "read")...)
		o.mean(metricConnLatency, s.WriteLatency, append(labels, "write")...)
		o.gauge(metricConnPending, s.Pending, labels...)
		o.gauge(metricConnCredits, s.Credits, labels...)
		o.gauge(metricConnFiles, s.Files, labels...)
	}
}

// output is where metrics go.
type output chan<- prometheus.Metric

// put sends a metric, or an invalid metric with the error: a label that a client chose must
// not end the process.
func (o output) put(d *prometheus.Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	o <- m
}

func (o output) gauge(d *prometheus.Desc, v int, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	o.put(d, m, err)
}

func (o output) counter(d *prometheus.Desc, v uint64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	o.put(d, m, err)
}

// traffic writes operations and bytes of each kind.
func (o output) traffic(ops, bytes *prometheus.Desc, t server.Traffic, labels ...string) {
	for _, k := range []struct {
		op string
		n  server.Count
	}{
		{"read", t.Reads}, {"write", t.Writes}, {"vectored_read", t.VectoredReads}, {"vectored_write", t.VectoredWrites},
	} {
		all := append(append([]string(nil), labels...), k.op)
		o.counter(ops, k.n.Operations, all...)
		o.counter(bytes, k.n.Bytes, all...)
	}
}

// mean writes a sum and a count, from which a reader computes the mean.
func (o output) mean(d *prometheus.Desc, l server.Latency, labels ...string) {
	m, err := prometheus.NewConstSummary(d, l.Operations, l.Sum.Seconds(), nil, labels...)
	o.put(d, m, err)
}

// The buckets of a histogram: from one microsecond to four seconds.
const firstBucket, lastBucket = 10, 32

// latency writes a histogram, each of whose buckets counts the delays below its bound.
func (o output) latency(d *prometheus.Desc, h server.Histogram, labels ...string) {
	below, total := make(map[float64]uint64, lastBucket-firstBucket+1), uint64(0)
	for i, n := range h.Counts {
		total += n
		if i >= firstBucket && i <= lastBucket {
			below[latency.Bound(i).Seconds()] = total
		}
	}
	m, err := prometheus.NewConstHistogram(d, total, h.Sum.Seconds(), below, labels...)
	o.put(d, m, err)
}
