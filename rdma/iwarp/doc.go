// Package iwarp is an RDMA provider for iWARP over TCP in user space: MPA framing
// (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040), in pure Go, without
// privileges or special hardware.
//
//	p := iwarp.New(nil)
//	a, err := p.OpenAdapter(ctx, netip.MustParseAddr("127.0.0.1"))
//
// It offers Send, with and without a solicited event, RDMA Write, RDMA Read, memory
// windows, shared receive queues, and files as the source of writes. A peer may
// invalidate a window with a Send. RFC 7306 adds immediate data and atomic operations.
//
// # Files
//
// The wire formats are in internal/frame. Each object of package rdma has its file:
// provider.go, adapter.go, memory.go (Alloc), qp.go and post.go (queue pair), connector.go,
// listener.go, file.go (file source). Package softrdma has the other objects. A
// connection in progress is conn.go (its life), sleeper.go (which goroutine reads),
// sender.go, framer.go and batch.go (sending), receiver.go, inbuffer.go, segment.go and
// place.go (receiving), read.go, atomic.go and immediate.go (messages in both
// directions), and markedconn.go (a stream with markers).
//
// # Goroutines
//
// A connection has one reading goroutine for its whole life. While nothing arrives, it is
// parked in the network poller and holds no buffer. It leaves the reading to other
// goroutines that make progress themselves (sleeper.go). These are a Poll of an empty
// queue with few queue pairs, which reads their sockets, and a Wait of a queue with one
// queue pair, which waits on its socket. When they stop, it reads again within two
// milliseconds. A post writes as many bytes as the socket takes at once. A writing
// goroutine writes the rest and ends when the queue is empty. The reading goroutine owns
// the end of the connection: it closes Done, stops the writer, flushes the queue pair,
// sends a Terminate if there is one, and closes the socket. Answers to a peer's reads are
// queued, up to the agreed number, and written like requests: the reader never waits for
// the writer. A listener has one accepting goroutine, and one goroutine for each
// connection in start-up. Close of an object waits for its goroutines.
//
// # Locks
//
// The locks are taken in this order: adapter, listener, connector, receiver.mu, the order
// lock of the InitiatorQueue, the lock of the InitiatorQueue, the lock of the receive
// queue, the lock of a completion queue. No lock is held during a system call that may
// block. Regions and windows are not locked: every access takes a reference for the time
// of one copy or one non-blocking system call. Close waits for these accesses, never for
// a peer. An invalidate waits for them too, with the lock of the queue pair held.
//
// Source: [RFC 5040], [RFC 5041], [RFC 5044], [RFC 6581], [RFC 7306], [ND Overview]
package iwarp
