// Package stream is the session protocol of sockets over RDMA: it makes a byte stream
// with the manners of TCP out of the reliable messages and the RDMA of one [verbs.Socket].
//
//	st, err := stream.New(ctx, sock, stream.Config{}) // before the socket connects
//	...                                                 // Connect or Accept
//	err = st.Start(ctx, active)                         // the negotiation
//	n, err := st.Write(p)
//
// # Ways of the data
//
// Both sides post receives for control messages and tell each other how many; a message
// costs a credit. Up to the threshold, data is copied into control messages. What is larger
// is offered: the message has the beginning of it and a descriptor of the rest. The receiver
// fetches the rest by RDMA Read when its program reads, straight into the program's memory
// if that is large enough, several offers at a time, and says when it has each. A receiver
// that cannot read answers an offer with a descriptor of memory of its own, to which the
// sender writes.
//
// Over an adapter that reaches only its own memory directly (rdma.CapDirectAlloc), what is
// offered is copied into such memory first, in pieces, and Write returns when the last of
// them is offered. Over others the program's memory itself is offered, and Write returns
// when the peer has it.
//
// # Who makes progress
//
// Whoever waits in a call drives the connection for all (baton.go); of several, the first.
// While no call waits, the stream's one goroutine does, so that credits, fetches and the
// end of the connection are always served. It is not woken for every message: it leaves the
// connection alone for a while after calls have used it.
//
// # Locks
//
// Stream.reading and Stream.writing (held by one Read and one Write) come before Stream.mu,
// which guards all that arrives and is held while completions are handed out; this before
// outbound.mu, which guards all that leaves. baton.mu and deadline.mu come last.
//
// Source: [WSD §4], [WSD §5], [WSD §7]
package stream
