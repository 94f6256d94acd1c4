package stream

import (
	"context"
	"errors"

	"lwio/rsock/internal/verbs"
)

// tailPart says which part of a Write's memory is offered as a copy: one in tailPart bytes.
const tailPart = 4

// writeLarge offers data. The beginning of it goes with the first offer.
//
// Source: [WSD §5.2], [WSD §5.3]
func (w *writer) writeLarge(p []byte) (n int, err error) {
	head := min(maxHead, w.tx.room(MaxDescriptor), len(p)-1)
	for n < len(p) && err == nil {
		k := 0
		if w.c.copies {
			k, err = w.offerCopy(p[n:], head)
			if errors.Is(err, errNoStage) {
				k, err = w.writeSmall(p[n:])
			}
		} else {
			k, err = w.offerMemory(p[n:], head)
		}
		n += k
		head = 0
	}
	return n, err
}

// offerCopy sends head bytes of p with an offer of a copy of the following bytes. It returns
// the number of all these bytes.
func (w *writer) offerCopy(p []byte, head int) (int, error) {
	g, err := w.awaitPiece()
	if err != nil {
		return 0, err
	}
	k := copy(g.buf, p[head:])
	if err := w.offerPiece(g, k, p[:head]); err != nil {
		return 0, err
	}
	return head + k, nil
}

// awaitPiece waits for a piece of the stage.
func (w *writer) awaitPiece() (g *piece, err error) {
	err = w.awaitBulk(func() (bool, error) {
		var err error
		g, err = w.stage.take()
		return g != nil, err
	})
	return g, err
}

// offerPiece offers the first k bytes of a piece. The piece is free again when the peer has
// them.
func (w *writer) offerPiece(g *piece, k int, head []byte) error {
	t := &outgoing{total: uint64(k), piece: g, handle: g.handle, offset: g.offset}
	err := w.await(func() (bool, error) { return w.offers.offer(t, head, g.descriptor[:g.size]), nil })
	if err != nil {
		w.stage.give(g)
	}
	return err
}

// offerMemory sends head bytes of p with an offer of the rest of p itself, and waits until
// the peer does not need p any more. For a peer that reads, it offers the end of p as a
// copy, and does not wait for that offer. So the next Write is offered before the peer has
// fetched everything.
//
// Source: [WSD §5.2], [WSD §5.3], [WSD §5.4]
func (w *writer) offerMemory(p []byte, head int) (n int, err error) {
	t, tail := &outgoing{}, (*outgoing)(nil)
	rest, last := p[head:min(len(p), head+w.c.sock.Options().MaxRdmaSize)], []byte(nil)
	if keep := min(stageSize, len(rest)/tailPart); w.c.peer.CanRead && head+len(rest) == len(p) && keep >= directRead {
		rest, last = rest[:len(rest)-keep], rest[len(rest)-keep:]
	}
	size, err := w.register(t, rest)
	if err != nil {
		return 0, w.registerError(err)
	}
	t.total = uint64(len(rest))
	err = w.await(func() (bool, error) { return w.offers.offer(t, p[:head], w.offered[:size]), nil })
	if err == nil {
		n = head
		if len(last) > 0 {
			tail = w.offerTail(last)
		}
		err = w.awaitReturn(t, tail)
		n += int(t.moved)
		switch {
		case tail == nil:
		case err == nil && !tail.withdrawn:
			n += len(last)
		default:
			err = errors.Join(err, w.awaitReturn(tail, nil))
			n += int(tail.moved)
		}
	}
	return n, errors.Join(err, w.deregister(t, size))
}

// register registers the program's memory for an offer. For a peer that reads it stores the
// descriptor in offered, and returns the size of the descriptor in bytes.
func (w *writer) register(t *outgoing, p []byte) (size int, err error) {
	ctx := context.Background()
	if w.c.peer.CanRead {
		return w.c.sock.RegisterRdmaMemory(ctx, p, verbs.MemRead, w.offered[:])
	}
	t.handle, err = w.c.sock.RegisterMemory(ctx, p, verbs.MemRead)
	return 0, err
}

// deregister undoes register.
func (w *writer) deregister(t *outgoing, size int) error {
	if size > 0 {
		return w.c.sock.DeregisterRdmaMemory(w.offered[:size])
	}
	return w.c.sock.DeregisterMemory(t.handle)
}

// offerTail offers a copy of the data that follows an offer. It returns nil if it would have
// to wait.
func (w *writer) offerTail(p []byte) *outgoing {
	g, err := w.stage.take()
	if g == nil || err != nil {
		return nil
	}
	t := &outgoing{total: uint64(copy(g.buf, p)), piece: g}
	if !w.offers.offer(t, nil, g.descriptor[:g.size]) {
		w.stage.give(g)
		return nil
	}
	return t
}

// registerError returns why memory of the program could not be registered: the connection
// has ended, or there is no memory.
func (w *writer) registerError(err error) error {
	if f := w.c.failure(); f != nil {
		return f
	}
	if verbs.ErrnoOf(err) == verbs.ENOTCONN {
		return w.c.errorBelow(err)
	}
	return noBuffers(err)
}

// awaitReturn waits until the peer does not access the memory of an offer any more. If it
// has to withdraw the offer, it first withdraws the offer of the tail, which follows in the
// stream.
//
// Source: [WSD §7]
func (w *writer) awaitReturn(t, tail *outgoing) error {
	w.c.writeWait.bulk = true
	defer func() { w.c.writeWait.bulk = false }()
	var late overdue
	defer late.stop()
	for {
		w.c.writeWait.flag.Store(false)
		stop := w.writable()
		if w.offers.isOver(t) {
			if t.err != nil {
				return t.err
			}
			if t.moved < t.total {
				return stop
			}
			return nil
		}
		if w.c.failure() != nil {
			// The provider revokes the memory when it is deregistered.
			if w.offers.dropAll(stop); w.offers.isOver(t) {
				return stop
			}
		} else if stop != nil {
			late.check(w.c, &w.deadline)
			if tail != nil {
				w.offers.withdraw(tail)
			}
			if w.offers.withdraw(t) {
				continue
			}
		}
		w.c.wait(&w.c.writeWait)
	}
}
