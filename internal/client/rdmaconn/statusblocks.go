package rdmaconn

import (
	"sync/atomic"

	"lwio/internal/client/base"
)

// statusBlocks decide which requests are polled, and know those that are. Safe for concurrent
// use.
type statusBlocks struct {
	mode    base.CompletionMode
	ordered bool        // the adapter places data in order
	enabled atomic.Bool // a credit is kept for INTERRUPT
	polled  requestSet  // the outstanding requests with a status block
	paces   paces
}

// possible reports whether requests may ask for status blocks at all.
//
// Source: [OP-88]
func (b *statusBlocks) possible() bool { return b.mode != base.Interrupt && b.ordered }

// decide chooses how the answer to a request comes: polled says that by a status block. p is
// where its delay is noted, or nil. pending is how many requests are in flight or queued.
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
