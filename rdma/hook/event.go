package hook

import (
	"log/slog"
	"time"

	"lwio/rdma"
)

// Tracer gets the events. Event is called in the goroutine that does what the
// event tells, from many at once; it must return soon.
type Tracer interface {
	Event(Event)
}

// Event is one of Posted, Completed and Controlled.
type Event interface {
	// failure is the error that the event tells of, or nil; describe tells all else.
	failure() error
	describe() (string, []slog.Attr)
}

// Posted tells that a request was handed to a queue pair.
type Posted struct {
	// QueuePair is the Context of the queue pair's config.
	QueuePair uint64
	// Op, Flags and ID are the request's, Bytes the data it names; it is
	// OpReceive for a receive.
	Op    rdma.Op
	Flags rdma.Flags
	ID    uint64
	Bytes int
	// Remote is where a write or read goes.
	Remote rdma.RemoteAddr
	// Action is what the fault function decided; of a receive, and without such a
	// function, it is Pass.
	Action Action
	// Err is why the queue pair did not take it, or nil.
	Err error
}

// Completed tells that a result was polled.
type Completed struct {
	rdma.Result
}

// Controlled tells that a call of the control path is over.
type Controlled struct {
	// Op is the call: "connect", "register memory", "close queue pair".
	Op string
	// Object names what it was about: an address, a size; it may be empty.
	Object string
	// Took is how long the call took.
	Took time.Duration
	// Err is its error.
	Err error
}
