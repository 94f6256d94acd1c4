package stream

import (
	"context"
	"errors"
	"os"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// Write sends p and returns how much of it is on its way, which is less than all only with
// an error. What is not larger than the threshold is copied into control messages. What is
// larger is offered to the peer: a copy of it, and then Write returns when all is offered,
// or p itself, and then it returns when the peer has it. If the time is over before that,
// the peer is asked to leave the rest.
//
// Errors: os.ErrDeadlineExceeded; ErrNoBuffers, after which the stream can be used on;
// ErrWriteClosed; net.ErrClosed after Close; ErrPeerClosed; ErrReset; ErrProtocol.
//
// Source: [WSD §5.1], [WSD §5.2], [WSD §5.4]
func (s *Stream) Write(p []byte) (n int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err = s.writable(); err == nil {
		if len(p) > s.cfg.Threshold {
			n, err = s.writeLarge(p)
		} else {
			n, err = s.writeSmall(p)
		}
	}
	s.counts.bytesOut.Add(uint64(n))
	return n, err
}

// writable is why nothing can be written.
func (s *Stream) writable() error {
	switch {
	case s.closing.Load():
		return errClosed
	case s.writeDeadline.over.Load():
		return os.ErrDeadlineExceeded
	case s.finished.Load():
		return ErrWriteClosed
	case s.peerLeft.Load():
		return ErrPeerClosed
	}
	return s.failure()
}

// send sends a message, for which it waits if it has to.
func (s *Stream) send(m *Message, k class) error {
	return s.await(func() (bool, error) { return s.out.trySend(m, k), nil })
}

// sendData waits until a message with data could be sent.
func (s *Stream) sendData(try func() bool) error {
	s.writer.bulk = s.runOut.isBulk()
	defer func() { s.writer.bulk = false }()
	return s.await(func() (bool, error) { return try(), nil })
}

// await waits until try is true or fails, or nothing can be written.
func (s *Stream) await(try func() (bool, error)) error {
	for {
		s.writer.flag.Store(false)
		if err := s.writable(); err != nil {
			return err
		}
		if ok, err := try(); ok || err != nil {
			return err
		}
		s.wait(&s.writer)
	}
}

// writeSmall sends data in control messages.
//
// Source: [WSD §5.1]
func (s *Stream) writeSmall(p []byte) (n int, err error) {
	m := Message{Type: TypeData}
	for n < len(p) {
		m.Payload = p[n:min(len(p), n+s.out.room(0))]
		if !s.out.trySend(&m, parked) {
			if err := s.sendData(func() bool { return s.out.trySend(&m, parked) }); err != nil {
				return n, err
			}
		}
		n += len(m.Payload)
		s.runOut.add(len(m.Payload), &s.runIn)
	}
	return n, nil
}

// writeLarge offers data. The beginning of it goes with the offer.
//
// Source: [WSD §5.2], [WSD §5.3]
func (s *Stream) writeLarge(p []byte) (n int, err error) {
	head := min(maxHead, s.out.room(MaxDescriptor), len(p)-1)
	for n < len(p) && err == nil {
		k := 0
		if s.copies {
			k, err = s.offerCopy(p[n:], head)
			if errors.Is(err, errNoStage) {
				k, err = s.writeSmall(p[n:])
			}
		} else {
			k, err = s.offerMemory(p[n:], head)
		}
		n += k
		head = 0
	}
	return n, err
}

// copiesFirst tells whether what is offered is copied into memory that the peer reaches
// faster.
func copiesFirst(sock *socket, peer *Negotiation) bool {
	return peer.CanRead && sock.Service().Info().Caps.Has(rdma.CapDirectAlloc)
}

// offerCopy offers a copy of the first part of p, behind head bytes that go with the offer,
// and returns how much all of that is.
func (s *Stream) offerCopy(p []byte, head int) (int, error) {
	g, err := s.awaitPiece()
	if err != nil {
		return 0, err
	}
	k := copy(g.buf, p[head:])
	if err := s.offerPiece(g, k, p[:head]); err != nil {
		return 0, err
	}
	return head + k, nil
}

// awaitPiece waits for memory to offer from.
func (s *Stream) awaitPiece() (g *piece, err error) {
	s.writer.bulk = true
	defer func() { s.writer.bulk = false }()
	err = s.await(func() (bool, error) {
		var err error
		g, err = s.out.takePiece()
		return g != nil, err
	})
	return g, err
}

// offerPiece offers the first k bytes of a piece, which comes back when the peer has them.
func (s *Stream) offerPiece(g *piece, k int, head []byte) error {
	t := &outgoing{total: uint64(k), piece: g, handle: s.out.stage.handle, offset: g.offset}
	err := s.await(func() (bool, error) { return s.out.offer(t, head, g.descriptor[:g.size]), nil })
	if err != nil {
		s.out.give(g)
	}
	return err
}

// offerMemory offers p itself, behind head bytes that go with the offer, and waits until
// the peer does not need it any more. Of one who reads, the end of p is a copy, which need
// not be waited for, so that the next Write is offered before the peer runs out of work.
//
// Source: [WSD §5.2], [WSD §5.3], [WSD §5.4]
func (s *Stream) offerMemory(p []byte, head int) (n int, err error) {
	ctx, t, tail := context.Background(), &outgoing{}, (*outgoing)(nil)
	size, rest, last := 0, p[head:min(len(p), head+s.sock.Options().MaxRdmaSize)], []byte(nil)
	if s.peerReads {
		if keep := min(stageSize, len(rest)/tailPart); head+len(rest) == len(p) && keep >= directRead {
			rest, last = rest[:len(rest)-keep], rest[len(rest)-keep:]
		}
		size, err = s.sock.RegisterRdmaMemory(ctx, rest, verbs.MemRead, s.offered[:])
	} else {
		t.handle, err = s.sock.RegisterMemory(ctx, rest, verbs.MemRead)
	}
	if err != nil {
		return 0, s.registerError(err)
	}
	t.total = uint64(len(rest))
	err = s.await(func() (bool, error) { return s.out.offer(t, p[:head], s.offered[:size]), nil })
	if err == nil {
		n = head
		if len(last) > 0 {
			tail = s.offerTail(last)
		}
		err = s.awaitTaken(t, tail)
		n += int(t.moved)
		switch {
		case tail == nil:
		case err == nil && !tail.withdrawn:
			n += len(last)
		default:
			err = errors.Join(err, s.awaitTaken(tail, nil))
			n += int(tail.moved)
		}
	}
	if size > 0 {
		err = errors.Join(err, s.sock.DeregisterRdmaMemory(s.offered[:size]))
	} else {
		err = errors.Join(err, s.sock.DeregisterMemory(t.handle))
	}
	return n, err
}

// tailPart says what part of a Write's memory is offered as a copy: one in so many.
const tailPart = 4

// offerTail offers a copy of data that follows an offer, if that can be done at once.
func (s *Stream) offerTail(p []byte) *outgoing {
	g, err := s.out.takePiece()
	if g == nil || err != nil {
		return nil
	}
	t := &outgoing{total: uint64(copy(g.buf, p)), piece: g}
	if !s.out.offer(t, nil, g.descriptor[:g.size]) {
		s.out.give(g)
		return nil
	}
	return t
}

// registerError is why memory of the program could not be registered: that the connection
// is over, or else want of memory.
func (s *Stream) registerError(err error) error {
	if f := s.failure(); f != nil {
		return f
	}
	if verbs.ErrnoOf(err) == verbs.ENOTCONN {
		return connectionError(&s.sock, err)
	}
	return noBuffers(err)
}

// awaitTaken waits until the memory of an offer is this side's again. If it has to ask for
// it, it asks for that of the tail, which follows in the stream, before.
//
// Source: [WSD §7]
func (s *Stream) awaitTaken(t, tail *outgoing) error {
	s.writer.bulk = true
	defer func() { s.writer.bulk = false }()
	var late lateness
	defer late.stop()
	for {
		s.writer.flag.Store(false)
		stop := s.writable()
		if s.out.isOver(t) {
			if t.err != nil {
				return t.err
			}
			if t.moved < t.total {
				return stop
			}
			return nil
		}
		if s.failure() != nil {
			// The provider lets nobody touch it any more once it is deregistered.
			if s.out.dropAll(stop); s.out.isOver(t) {
				return stop
			}
		} else if stop != nil {
			late.look(s, &s.writeDeadline)
			if tail != nil {
				s.out.withdraw(tail)
			}
			if s.out.withdraw(t) {
				continue
			}
		}
		s.wait(&s.writer)
	}
}
