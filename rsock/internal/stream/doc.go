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
// the message contains the beginning of the data and a descriptor of the rest. The receiver
// fetches the rest by RDMA Read when its program reads, several offers at a time. The data
// goes straight into the program's memory if that is large enough. A message tells the
// sender the end of each fetch. A receiver that cannot read answers an offer with a
// descriptor of its own memory, and the sender writes to that memory.
//
// Over an adapter that reaches only its own memory directly (rdma.CapDirectAlloc), Write
// copies the data into memory of the adapter in pieces, offers the pieces, and returns when
// the last piece is offered. Over other adapters the program's memory itself is offered, and
// Write returns when the peer has it.
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
// The codec of messages (message.go, negotiate.go) and the counts of credits (credits.go)
// have no locks.
//
// # Progress
//
// A call that waits becomes the poller and handles completions for all calls. If several
// calls wait, the first is the poller. While no call waits, the one goroutine of the stream
// is the poller, so that credits, fetches and the end of the connection are always served.
// That goroutine takes the role only when no call has used it for some milliseconds, so it
// is not woken for every message.
//
// # Locks
//
// The order of locks is: reader.calls and writer.calls, held by one call each; receiver.mu,
// which guards the whole receive side and is held while completions are handled; offers.mu;
// sender.mu and stage.mu. deadline.mu and the lock of the poller come last.
//
// Source: [WSD §4], [WSD §5], [WSD §7]
package stream
