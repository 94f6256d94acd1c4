package stream

import "context"

// handshake is the negotiation that begins a session. receiver.mu guards it.
//
// Source: [WSD §3.3]
type handshake struct {
	expected Type // of the first message of the peer; 0 before Start
	done     bool // the message has come

	c      *connection
	tx     *sender
	offers *offers
}

// negotiation returns the announcement of this side.
func (h *handshake) negotiation() Negotiation {
	return Negotiation{
		Buffers: h.c.cfg.ReceiveBuffers, BufferSize: h.c.cfg.BufferSize, Offers: maxIncoming,
		CanRead: h.c.canRead(),
	}
}

// take handles the first message of the peer.
func (h *handshake) take(m *Message) error {
	if m.Type != h.expected {
		return violation("%v at the beginning", m.Type)
	}
	peer, err := DecodeNegotiation(m.Payload)
	if err != nil {
		return err
	}
	if int(m.Credits) != peer.Buffers {
		return violation("%v: %d credits for %d buffers", m.Type, m.Credits, peer.Buffers)
	}
	own := h.negotiation()
	h.c.setPeer(peer)
	h.tx.begin(&own, &peer, m.Type == TypeNegotiateAck)
	h.offers.begin(&peer)
	h.done = true
	h.c.signal(&h.c.readWait)
	return nil
}

// negotiate exchanges the first messages. The active side sends first.
func (r *receiver) negotiate(ctx context.Context, active bool) error {
	h := &r.handshake
	own := h.negotiation()
	m := Message{Type: TypeNegotiateAck, Credits: uint16(own.Buffers), Payload: own.AppendTo(nil)}
	r.mu.Lock()
	h.expected = TypeNegotiate
	if active {
		h.expected = TypeNegotiateAck
	}
	r.mu.Unlock()
	if active {
		m.Type = TypeNegotiate
		if err := r.tx.sendFirst(&m); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { r.c.signal(&r.c.readWait) })
	defer stop()
	for r.awaited(&r.c.readWait, func() bool { return h.done || ctx.Err() != nil }) {
	}
	switch err := r.c.failure(); {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if active {
		return nil
	}
	return r.tx.sendFirst(&m)
}

// isStarted reports whether the session is negotiated.
func (r *receiver) isStarted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handshake.done
}
