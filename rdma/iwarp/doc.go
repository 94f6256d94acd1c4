// Package iwarp is an RDMA provider that speaks iWARP over TCP in user space: MPA framing
// (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040), in pure Go, without
// privileges or special hardware.
//
//	p := iwarp.New(nil)
//	a, err := p.OpenAdapter(ctx, netip.MustParseAddr("127.0.0.1"))
//
// It has Send, with and without a solicited event, RDMA Write and RDMA Read, memory
// windows, which a peer may invalidate with a Send, shared receive queues, files as the
// source of writes and, by RFC 7306, immediate data and atomic operations.
//
// # Files
//
// The wire formats are in internal/frame. The objects of the seam are in files of their
// names: provider.go, adapter.go, mr.go (memory), qp.go and post.go (queue pair),
// connector.go, listener.go; the other objects are those of softrdma. A connection in
// progress is conn.go (its life), sleeper.go (which goroutine reads), sender.go, framer.go
// and batch.go (sending), receiver.go, inbuffer.go, segment.go and place.go (receiving),
// read.go, atomic.go and immediate.go (these messages in both directions), markedconn.go
// (a stream with markers).
//
// # Goroutines
//
// A connection has one reading goroutine for its whole life, which is parked in the
// network poller while nothing arrives and then holds no buffer. Where other goroutines
// make progress themselves it leaves the reading to them: to a Poll of an empty queue
// with few queue pairs, which reads their sockets, and to a Wait of a queue with one
// queue pair, which waits on its socket (sleeper.go). When they stop it reads again
// within two milliseconds. A post writes as much as the socket takes at once; a writing
// goroutine writes the rest and ends when the queue is empty. The reading goroutine owns
// the end of the connection: it closes Done, stops the writer, flushes the queue pair,
// sends a Terminate if there is one to send, and closes the socket. Answers to a peer's
// reads are queued, up to the agreed number, and written like requests: the reader never
// waits for the writer. A listener has one accepting goroutine and one for every
// connection in start-up. Close of an object waits for its goroutines.
//
// # Locks
//
// Adapter, listener and connector locks come before those of a queue pair
// (InitiatorQueue's order lock, then its lock, then that of the receive queue), these
// before that of a completion queue. A reader holds receiver.mu before any lock of a
// queue pair. No lock is held during a system call that may block. Regions and windows
// are not locked: every access takes a reference for the time of one copy or one
// non-blocking system call, and Close waits for those, never for a peer. So does an
// invalidate, with the lock of the queue pair held.
//
// Source: [RFC 5040], [RFC 5041], [RFC 5044], [RFC 6581], [RFC 7306], [ND Overview]
package iwarp
