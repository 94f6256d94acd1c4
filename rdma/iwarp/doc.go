// Package iwarp is an RDMA provider that speaks iWARP over TCP in user space:
// MPA framing (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040), in pure
// Go, without privileges or special hardware.
//
//	p := iwarp.New(nil)
//	a, err := p.OpenAdapter(ctx, netip.MustParseAddr("127.0.0.1"))
//
// It has Send, with and without a solicited event, RDMA Write and RDMA Read,
// memory windows, which a peer may invalidate with a Send, shared receive queues,
// files as the source of writes and, by RFC 7306, immediate data and atomic
// operations.
//
// # Files
//
// One file holds the pure codec of each layer (mpa.go, fpdu.go, ddp.go, rdmap.go,
// terminate.go); the objects of the seam are in the files that bear their names;
// a connection in progress is conn.go (its life), progress.go (who reads), tx.go (sending), rx.go and
// segment.go (receiving), read.go and atomic.go (reads and atomics of both
// directions), marker.go (the stream of a peer that wants markers).
//
// # Goroutines
//
// A connection has one reading goroutine for its whole life, which is parked in
// the network poller while nothing arrives and then holds no buffer. Where others
// make progress themselves it leaves the reading to them: to a Poll of an empty
// queue with few queue pairs, which looks at their sockets, and to a Wait of a
// queue with one queue pair, which waits on its socket (progress.go). When they stop
// it reads again within two milliseconds. What is
// posted is written by the poster itself as far as the socket takes it at once;
// the rest is left to a writing goroutine that ends when the queue is empty. The
// reading goroutine owns the end of the connection: it closes Done, stops the
// writer, flushes the queue pair, sends a Terminate if there is one to send, and
// closes the socket. Answers to a peer's reads are queued, as many as were
// agreed on, and written as what is posted is: the reader never waits for the
// writer. A listener has one accepting goroutine and one for every
// connection in start-up. Close of an object waits for its goroutines.
//
// # Locks
//
// Adapter, listener and connector locks come before those of a queue pair
// (doneMu, then mu, then that of its receive queue), these before that of a completion queue. Who
// reads holds receiver.mu before any of a queue pair's. No lock is held
// during a system call that may block. A region or window is not locked: every
// access takes a reference for the time of one copy or one non-blocking system call, and
// Close waits for those, never for a peer. So does an invalidate, with the lock of
// the queue pair held.
//
// Source: [RFC 5040], [RFC 5041], [RFC 5044], [RFC 6581], [RFC 7306], [ND Overview]
package iwarp
