package server

import (
	"sync/atomic"

	"lwio/internal/ntstatus"
)

// saturated is the count in a header's Credits that may stand for more.
const saturated = 0xFF

// wakeups counts the outstanding I/O requests of a connection and decides when an
// INTERRUPT, by which a polling client goes to sleep, is answered. sendQueue.mu guards
// it: to post an answer, to lower the count and to answer an armed INTERRUPT is one
// critical section, shared with the arrival of an INTERRUPT, so no wake-up is lost.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93d] [OP-93f]
type wakeups struct {
	// pending is the number of outstanding I/O requests: the receive loop raises it, and
	// only holders of the lock lower it.
	pending   atomic.Int32
	completed bool // an I/O request completed since the last wake-up
	armed     *op  // the INTERRUPT that waits
}

// begin counts an I/O request that has arrived and returns the number outstanding.
func (w *wakeups) begin() int { return int(w.pending.Add(1)) }

// complete counts n answers of I/O requests and returns the INTERRUPT to be answered, or
// nil.
func (w *wakeups) complete(n int) (armed *op) {
	w.pending.Add(-int32(n))
	w.completed = true
	armed, w.armed = w.armed, nil
	if armed != nil {
		w.completed = false
	}
	return armed
}

// interruptAnswer says when an INTERRUPT is answered.
type interruptAnswer int

const (
	interruptLater interruptAnswer = iota // by the next completion
	interruptNow
	interruptBusy // another one waits
)

// arm takes in an INTERRUPT of a client that has seen no completion of p requests: it is
// answered at once if the client has missed a completion, else by the next one.
//
// Source: [OP-93a] [OP-93c] [OP-93e]
func (w *wakeups) arm(o *op, p int) interruptAnswer {
	switch {
	case w.armed != nil:
		return interruptBusy
	case p == saturated && w.completed, p != saturated && int(w.pending.Load()) < p:
		w.completed = false
		return interruptNow
	}
	w.armed = o
	return interruptLater
}

// interrupt answers an INTERRUPT, by which a polling client goes to sleep: at once if it
// has missed a completion, else with the next one.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93c] [OP-93e] [OP-93f] [LWIO claim 21]
func (c *conn) interrupt(o *op) {
	c.flush() // answers at hand count as completions
	if c.send.interrupt(o, int(o.h.Credits)) {
		c.reply(o, ntstatus.DeviceBusy)
	}
}
