// Package stream is the session protocol of sockets over RDMA: it makes a byte stream with
// the behaviour of TCP from the reliable messages and the RDMA of one [verbs.Socket].
//
//	st, err := stream.New(ctx, sock, stream.Config{}) // before the socket connects
//	...                                               // Connect or Accept
//	err = st.Start(ctx, active)                       // the negotiation
//	n, err := st.Write(p)
//
// # How data moves
//
// Both sides post receives for control messages and announce how many; a message costs a
// credit. Data up to the threshold is copied into control messages. Larger data is offered:
// the message has the beginning of it and a descriptor of the rest. The receiver fetches the
// rest by RDMA Read when its program reads, straight into the program's memory if that is
// large enough, several offers at a time, and tells the sender when it has each. A receiver
// that cannot read answers an offer with a descriptor of memory of its own, to which the
// sender writes.
//
// Over an adapter that reaches only its own memory directly (rdma.CapDirectAlloc), offered
// data is copied into such memory first, in pieces, and Write returns when the last of them
// is offered. Over other adapters the program's memory itself is offered, and Write returns
// when the peer has it.
//
// # Components
//
// A [Stream] is composed of components, each with its own state:
//
//	connection  the shared state: socket, configuration, failure, waiters, counters
//	progress    how a call waits; which goroutine handles completions (package poller)
//	sender      control messages that leave: buffers, credits, queue
//	offers      large data that leaves: the offers of this side, RDMA Writes
//	stage       staging memory that large data is copied into and offered from
//	receiver    control messages that arrive: buffers, sequence, dispatch
//	  handshake   the negotiation
//	  input       data and offers that the program has not read
//	    fetcher     large data that arrives: RDMA Reads, memory for the peer to write to
//	  urgentQueue urgent data that the program has not read
//	reader      the calls that read, their deadline
//	writer      the calls that write, their deadline
//	closer      the orderly close of both sides
//	trimmer     memory of an idle stream
//
// The codec of messages (message.go, negotiate.go) and the credit arithmetic (credits.go) are
// values without locks.
//
// # Progress
//
// A call that waits becomes the poller and handles completions for all calls; of several
// calls the first does. While no call waits, the one goroutine of the stream is the poller, so
// that credits, fetches and the end of the connection are always served. It is not woken for
// every message: it leaves the connection alone for a while after calls have used it.
//
// # Locks
//
// reader.calls and writer.calls, held by one call each, come before receiver.mu, which guards
// the whole receive side and is held while completions are handled; this before offers.mu;
// this before sender.mu and stage.mu. deadline.mu and the lock of the poller come last.
//
// Source: [WSD §4], [WSD §5], [WSD §7]
package stream
