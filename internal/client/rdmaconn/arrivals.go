package rdmaconn

import (
	"sync/atomic"

	"lwio/internal/client/barrier"
	"lwio/internal/poller"
	"lwio/internal/seal"
	"lwio/internal/wire"
)

// operation is the owner of a request. Message is called while the request is posted, under the
// lock of the send queue. The goroutine that settles the request calls one of the others, while
// no other goroutine uses the operation.
type operation interface {
	// Message makes the header and the data of the request. They are valid until the next
	// request, and not zero before.
	Message(s *Request, h *wire.Header, data *Payload)
	// Deliver places the data of a small read, which is in bounce, in the caller's memory.
	Deliver(bounce []byte, ios wire.IOStatusBlock)
	// Answer notes the answer, or the cause of its absence.
	Answer(ios wire.IOStatusBlock, err error)
	// Abandon gives the epoch of a write, or nil, to the request, which the operation leaves.
	Abandon() *barrier.Epoch
	// Unanswered is called while the connection, which is down, is torn down.
	Unanswered(c *Conn)
}

// Ticket is the part of an operation that a connection knows. It is posted with a request, and
// comes back by its Arrivals when the request is answered. Owner and To do not change.
type Ticket struct {
	Owner operation
	To    *Arrivals

	request    *Request        // in flight, or nil
	generation uint64          // of request
	pace       *pace           // delays of requests of this kind and size; nil if none are measured
	polled     bool            // a call busy-polls for the answer
	sealed     seal.Descriptor // of the data of a read on a sealed connection
	late       atomic.Bool
	next       *Ticket // the ticket that came back just before this one
}

// IO describes the request of a read or write.
type IO struct {
	Write  bool
	Bytes  int           // asked for or sent
	Timed  bool          // the caller has a deadline of its own
	Buffer *BufferRegion // that a read goes to or a write is gathered from, or nil
	Replay bool          // the message was sent on an earlier connection, with this number
	Number uint64
}

// Prepare makes s, a credit that the caller took, the request of t. Conn.Post or Conn.Release
// follows.
func (t *Ticket) Prepare(s *Request, io IO) {
	s.kind = kindRead
	if io.Write {
		s.kind = kindWrite
	}
	s.want, s.timed, s.buffer = uint32(io.Bytes), io.Timed, io.Buffer
	if s.again = io.Replay; io.Replay {
		s.number = io.Number
	}
	t.use(s)
}

// use makes s the request of t.
func (t *Ticket) use(s *Request) {
	s.ticket = t
	t.request, t.generation = s, s.load().generation()
	if t.late.Load() {
		t.late.Store(false)
	}
}

// InFlight reports whether t has a request that did not come back, or was not taken out of
// Arrivals yet.
func (t *Ticket) InFlight() bool { return t.request != nil }

// Arrivals collects the tickets of one goroutine that came back, and wakes the goroutine when
// there are enough.
type Arrivals struct {
	Call bool // a blocking call waits for its one operation; does not change

	newest atomic.Pointer[Ticket] // stack of the tickets that came back
	count  atomic.Int64           // number of them
	need   atomic.Int64           // number that the sleeping goroutine waits for
	at     atomic.Pointer[Place]  // where the goroutine sleeps, or slept last
	failed atomic.Bool            // a connection has ended
}

// Place is where a goroutine waits for its tickets.
type Place struct {
	Conn   *Conn         // nil for a place without a connection
	waiter poller.Waiter // on a connection
	token  chan struct{} // without a connection
}

// NewPlace makes a place.
func NewPlace(c *Conn) Place {
	if c == nil {
		return Place{token: make(chan struct{}, 1)}
	}
	return Place{Conn: c, waiter: poller.NewWaiter()}
}

// Token gets a value when the goroutine that waits at a place without a connection is woken.
func (p *Place) Token() <-chan struct{} { return p.token }

// wake wakes the goroutine if it sleeps here.
func (p *Place) wake() {
	if p.Conn != nil {
		p.Conn.progress.poller.Wake(&p.waiter)
		return
	}
	select {
	case p.token <- struct{}{}:
	default:
	}
}

// SleepAt says where the goroutine is about to wait, and for how many tickets.
func (a *Arrivals) SleepAt(p *Place, need int) {
	if a.at.Load() != p {
		a.at.Store(p) // before need, by which others decide whether to wake
	}
	a.need.Store(int64(need))
}

// At is where the goroutine waits, or waited last; nil if it never did.
func (a *Arrivals) At() *Place { return a.at.Load() }

// Ready reports whether as many tickets came back as the goroutine waits for, or a connection
// has ended.
func (a *Arrivals) Ready() bool { return a.count.Load() >= a.need.Load() || a.failed.Load() }

// Take takes the tickets that came back out, in the order in which they came back. Ticket.Next
// leads to the next of them.
func (a *Arrivals) Take() (oldest *Ticket, n int) {
	if a.newest.Load() == nil {
		return nil, 0
	}
	for t := a.newest.Swap(nil); t != nil; n++ {
		t.request = nil
		t, t.next, oldest = t.next, oldest, t
	}
	a.count.Add(-int64(n))
	return oldest, n
}

// Next is the ticket that came back after t, or nil. It ends the list at t.
func (t *Ticket) Next() *Ticket {
	next := t.next
	t.next = nil
	return next
}

// Return puts a ticket among those that came back.
func (a *Arrivals) Return(t *Ticket) {
	a.push(t, t)
	a.arrived(1)
}

// push puts tickets that are linked from newest to oldest among those that came back.
func (a *Arrivals) push(newest, oldest *Ticket) {
	for {
		oldest.next = a.newest.Load()
		if a.newest.CompareAndSwap(oldest.next, newest) {
			return
		}
	}
}

// arrived counts n tickets that came back, and wakes the goroutine if it waits for no more.
func (a *Arrivals) arrived(n int) {
	if a.count.Add(int64(n)) >= a.need.Load() {
		a.wakeOwner()
	}
}

// wakeOwner wakes the goroutine, wherever it sleeps.
func (a *Arrivals) wakeOwner() {
	if p := a.at.Load(); p != nil {
		p.wake()
	}
}

// connectionFailed makes the goroutine look at its connections.
func (a *Arrivals) connectionFailed() {
	a.failed.Store(true)
	a.wakeOwner()
}

// SeeFailure forgets that a connection has ended, before the goroutine looks at them.
func (a *Arrivals) SeeFailure() {
	if a.failed.Load() {
		a.failed.Store(false)
	}
}
