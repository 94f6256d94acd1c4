package stream

import "sync/atomic"

// counts are the counters that Stats shows.
type counts struct {
	bytesIn, bytesOut, bytesFetched, bytesOffered  atomic.Uint64
	messagesIn, messagesOut, stalls, urgentDropped atomic.Uint64
}

// Stats counts the work of a stream.
type Stats struct {
	// BytesRead and BytesWritten are bytes that the program has read and written.
	BytesRead, BytesWritten uint64
	// RDMARead and RDMAWritten are the bytes of BytesRead and BytesWritten that moved by
	// RDMA.
	RDMARead, RDMAWritten uint64
	// MessagesReceived and MessagesSent are control messages.
	MessagesReceived, MessagesSent uint64
	// SendStalls is how often a message had to wait for a credit or a buffer.
	SendStalls uint64
	// UrgentDropped is urgent data that was not read in time, in bytes.
	UrgentDropped uint64
}

// stats returns the values of the counters.
func (c *counts) stats() Stats {
	return Stats{
		BytesRead: c.bytesIn.Load(), BytesWritten: c.bytesOut.Load(),
		RDMARead: c.bytesFetched.Load(), RDMAWritten: c.bytesOffered.Load(),
		MessagesReceived: c.messagesIn.Load(), MessagesSent: c.messagesOut.Load(),
		SendStalls: c.stalls.Load(), UrgentDropped: c.urgentDropped.Load(),
	}
}
