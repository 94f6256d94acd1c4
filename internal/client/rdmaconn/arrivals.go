package rdmaconn

import (
	"sync/atomic"

	"lwio/internal/poller"
	"lwio/internal/wire"
)

// completer is the operation that a request belongs to. Its methods are called by the
// goroutine that settles the request; nothing else uses the operation meanwhile.
type completer interface {
	// Deliver places the data of a small read in the caller's memory, before the entry of
	// the request table is used again.
	Deliver(s *Request, ios wire.IOStatusBlock)
	// Answer notes the answer, or why there is none.
	Answer(ios wire.IOStatusBlock, err error)
	// Abandon leaves the request to the request table until the server has answered.
	Abandon(s *Request)
	// Unanswered is called while the connection, which has ended, is torn down.
	Unanswered(c *Conn)
}

// Ticket is the part of an operation that a connection sees: it comes back, by arrivals, when
// the request is answered.
type Ticket struct {
	Owner  completer
	To     *Arrivals
	pace   *pace       // of its request, or nil
	polled bool        // the answer to its request is a status block
	Late   atomic.Bool // its time was up: it came back, or is about to, and its entry is not free
	Next   *Ticket     // that came back before
}

// Arrivals collects the operations of a queue that were answered, and wakes its goroutine
// when there are enough of them.
type Arrivals struct {
	Call bool // a blocking call waits for its one operation
	// Answered is a stack of operations that came back; count is their number, need the
	// number that the sleeping goroutine waits for.
	Answered    atomic.Pointer[Ticket]
	Count, Need atomic.Int64
	At          atomic.Pointer[Place] // where the goroutine sleeps, or slept last
	Failed      atomic.Bool           // a connection has ended
}

// Place is where the goroutine of a queue waits.
type Place struct {
	Conn   *Conn         // nil for SMB
	Waiter poller.Waiter // for RDMA
	Woken  chan struct{} // for SMB; receives an element when the goroutine has to look
}

// NewPlace makes a place.
func NewPlace(c *Conn) Place {
	if c == nil {
		return Place{Woken: make(chan struct{}, 1)}
	}
	return Place{Conn: c, Waiter: poller.NewWaiter()}
}

// wake wakes the goroutine if it sleeps here.
func (p *Place) wake() {
	if p.Conn != nil {
		p.Conn.wake(&p.Waiter)
		return
	}
	select {
	case p.Woken <- struct{}{}:
	default:
	}
}

// Ready reports whether as many operations have come back as the goroutine waits for, or a
// connection has ended.
func (a *Arrivals) Ready() bool { return a.Count.Load() >= a.Need.Load() || a.Failed.Load() }

// Returns puts operations among those that came back.
func (a *Arrivals) Returns(newest, oldest *Ticket) {
	for {
		oldest.Next = a.Answered.Load()
		if a.Answered.CompareAndSwap(oldest.Next, newest) {
			return
		}
	}
}

// Take takes the operations that came back, linked in the order in which they did, and their
// number.
func (a *Arrivals) Take() (oldest *Ticket, n int) {
	if a.Answered.Load() == nil {
		return nil, 0
	}
	for list := a.Answered.Swap(nil); list != nil; n++ {
		list, list.Next, oldest = list.Next, oldest, list
	}
	a.Count.Add(-int64(n))
	return oldest, n
}

// Arrived counts n operations that came back, and wakes the goroutine if it waits for no
// more.
func (a *Arrivals) Arrived(n int) {
	if a.Count.Add(int64(n)) >= a.Need.Load() {
		a.wakeOwner()
	}
}

// wakeOwner wakes the goroutine, wherever it sleeps.
func (a *Arrivals) wakeOwner() {
	if p := a.At.Load(); p != nil {
		p.wake()
	}
}

// connectionFailed makes the goroutine look at its connections.
func (a *Arrivals) connectionFailed() {
	a.Failed.Store(true)
	a.wakeOwner()
}

// Expire ends the wait for the request of an entry that is settling, because its time is up.
// The watchdog calls it.
func (c *Conn) Expire(s *Request) {
	t := s.Op
	if t == nil {
		s.Set(requestExpired)
		c.wake(&s.Waiter)
		return
	}
	s.Op = nil
	fid := s.Fid
	t.Owner.Abandon(s)
	t.Owner.Answer(wire.IOStatusBlock{}, ErrTimeout)
	t.Late.Store(true)
	s.Set(RequestAbandoned) // from here on it may get another generation, which says that the operation came back
	c.Credits.Cancel(c, fid, false)
	t.To.Returns(t, t)
	t.To.Arrived(1)
}
