package rdmaconn

import (
	"sync/atomic"

	"lwio/internal/client/base"
)

// statusBlocks decide which requests are polled, and know those that are. On a sealed connection no
// request has a status block: a call that polls looks for the sealed message. Safe for concurrent use.
type statusBlocks struct {
	mode    base.CompletionMode
	ordered bool        // the adapter places data in order
	sealed  bool        // the answers to polled requests are messages too
	enabled atomic.Bool // requests are polled: a credit is kept for INTERRUPT, or the connection is sealed
	polled  requestSet  // the outstanding requests that are polled
	paces   paces
}

// init sets how the answers come.
func (b *statusBlocks) init(mode base.CompletionMode, ordered, sealed bool) {
	b.mode, b.ordered, b.sealed = mode, ordered, sealed
	b.enabled.Store(sealed && mode != base.Interrupt) // a message ends a sleep without INTERRUPT
}

// possible reports whether requests may ask for status blocks at all.
//
// Source: [OP-88]
func (b *statusBlocks) possible() bool { return b.mode != base.Interrupt && b.ordered && !b.sealed }

// decide chooses how to wait for the answer to a request: polled says that a call busy-polls, for a
// status block or, on a sealed connection, for a message. p is where the delay of the answer is noted,
// or nil. pending is how many requests are in flight or queued.
func (b *statusBlocks) decide(kind requestKind, want uint32, pending int64) (p *pace, polled bool) {
	switch {
	case !kind.io() || !b.enabled.Load():
		return nil, false
	case b.mode == base.Polling:
		return nil, true
	case pending > adaptiveDepth:
		return nil, false
	}
	p = b.paces.of(kind, want)
	return p, p.polls()
}
