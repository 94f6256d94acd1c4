package stream

import "sync/atomic"

// counts are what Stats shows.
type counts struct {
	bytesIn, bytesOut, bytesFetched, bytesOffered atomic.Uint64
	messagesIn, messagesOut, held, urgentDropped  atomic.Uint64
}

// Stats counts what a stream has done.
type Stats struct {
	// BytesRead and BytesWritten are what the program has read and written, in bytes.
	BytesRead, BytesWritten uint64
	// RDMARead and RDMAWritten are the parts of it that were moved by RDMA.
	RDMARead, RDMAWritten uint64
	// MessagesReceived and MessagesSent are control messages.
	MessagesReceived, MessagesSent uint64
	// Held is how often a message could not be sent at once, for want of a credit or a
	// buffer.
	Held uint64
	// UrgentDropped is urgent data that nobody read in time, in bytes.
	UrgentDropped uint64
}

// Stats gives the counts.
func (s *Stream) Stats() Stats {
	c := &s.counts
	return Stats{
		BytesRead: c.bytesIn.Load(), BytesWritten: c.bytesOut.Load(),
		RDMARead: c.bytesFetched.Load(), RDMAWritten: c.bytesOffered.Load(),
		MessagesReceived: c.messagesIn.Load(), MessagesSent: c.messagesOut.Load(),
		Held: c.held.Load(), UrgentDropped: c.urgentDropped.Load(),
	}
}
