// Package rdmaconn is one RDMA connection of a client: AUTH, the table of requests, credits,
// the send queue, the poller, cancellation, and the registrations of memory.
//
// # The way of a request
//
// A request takes an entry of the request table, which is a credit, and goes through these
// states.
//
//	free ──► pending ──► settling ──► done ──► free      the call releases it
//	            │            └───────────────► free      the queue, or the call itself, has the answer
//	            ├─ the call leaves ──► abandoned ── the answer ──► free
//	            └─ time is up ──► expired ─┬─ the call sees it ──► abandoned
//	                                       └─ the answer ──► late ──► free
//
// How the answer comes is fixed when the request is sent: as a message, which ends a
// sleep on the completion queue, or as a status block in memory that is polled
// ([base.CompletionMode]). The goroutine that sees the answer first settles the request, for any
// call. A request that is given up keeps its entry, and with it the memory that a
// late answer may touch, until the answer is there or the connection is gone.
//
// # Waiting
//
// One of the calls that wait is the poller of the connection: it delivers the answers, and
// busy-polls status blocks or sleeps on the completion queue; the others are parked until
// their answer is there or they become the poller. A call whose context can end does not
// sleep as the poller; then, and while no call waits, a goroutine of the connection does.
//
// A poller that is about to sleep while status blocks are outstanding sends INTERRUPT, with
// the number of requests that it has not seen complete, and looks once more; the server
// answers as soon as it has completed one that is not among them. A request that is
// sent while the poller sleeps does the same. So no wake-up is lost.
//
// # Goroutines
//
// Each RDMA connection has two: one is the poller while no call is, one watches
// over deadlines and tears the connection down. Under load a third may post the
// messages that callers have queued. Close waits for all of them.
//
// Source: [LWIO §I/O Processing]
package rdmaconn
