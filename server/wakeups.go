package server

import (
	"sync/atomic"

	"lwio/internal/ntstatus"
)

// saturated is the largest count in the field Credits of a header. It can stand for a larger count.
const saturated = 0xFF

// wakeups counts the outstanding I/O requests of a connection, and decides when to answer an
// INTERRUPT. A polling client sends an INTERRUPT before it sleeps. sendQueue.mu guards wakeups. One
// critical section posts an answer, lowers the count and answers an armed INTERRUPT. The arrival
// of an INTERRUPT uses the same lock, so no wake-up is lost.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93d] [OP-93f]
type wakeups struct {
	// pending is the number of outstanding I/O requests. The receive loop raises it. A
	// goroutine lowers it only with the lock held.
	pending   atomic.Int32
	completed bool // an I/O request has completed since the last wake-up
	armed     *op  // the INTERRUPT that waits
}

// begin counts an arrived I/O request and returns the number of outstanding requests.
func (w *wakeups) begin() int { return int(w.pending.Add(1)) }

// complete counts n answers of I/O requests. It returns the armed INTERRUPT, which the caller
// answers, or nil.
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
	interruptLater interruptAnswer = iota // the next completion answers it
	interruptNow
	interruptBusy // another INTERRUPT is armed
)

// arm handles the INTERRUPT of a client that has seen no completion of p requests. If the client has
// missed a completion, the INTERRUPT is answered at once. Otherwise arm arms it, and the next
// completion answers it.
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

// interrupt handles an INTERRUPT, see wakeups.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93c] [OP-93e] [OP-93f] [LWIO claim 21]
func (c *conn) interrupt(o *op) {
	c.flush() // collected answers count as completions
	if c.send.interrupt(o, int(o.h.Credits)) {
		c.reply(o, ntstatus.DeviceBusy)
	}
}
