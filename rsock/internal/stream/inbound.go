package stream

import (
	"context"

	"lwio/rsock/internal/verbs"
)

// inbound is what arrives. Stream.mu guards it.
type inbound struct {
	handle verbs.Handle // of area
	area   []byte       // the control buffers, and behind them what is fetched into without other memory
	slots  []recvSlot
	calm   int  // completions of this poll that leave nothing to flush
	spent  bool // there may be something in outbound.spent
	usage  usage

	first    Type // what the first message has to be; 0 before Start
	met      bool // it has come
	broken   bool // the peer broke a rule: what else comes of it is not looked at
	sequence uint32
	items    fifo[item] // of the stream, in order
	transfer uint32     // the last that the peer offered
	offers   int        // of the peer that are unfinished

	dst     []byte // of a Read that waits for data
	got     int    // bytes of data that are in it
	views   int    // calls of WriteTo that are at data of the stream
	discard bool   // CloseRead was called
	eof     bool   // the peer has ended its stream
	left    bool   // and reads no more either, and wants to know when all of it is here
	told    bool   // it knows
	taken   bool   // the peer has all that this side wrote
	drained int    // bytes of the budget that hold what a peer that closed had on offer

	fetching fetching
	urgent   urgent
}

// recvSlot is one buffer for control messages.
type recvSlot struct {
	over verbs.Overlapped
	buf  []byte
	sge  [1]verbs.BufferEx
}

// item is a part of the stream that has not been read: bytes that are here, and then what
// the peer offers.
type item struct {
	data  []byte    // that is not read
	chunk *chunk    // whose part data is, or nil
	offer *incoming // or nil
}

// init registers the buffers and posts the receives.
func (in *inbound) init(ctx context.Context, s *Stream) (err error) {
	n, size := s.cfg.ReceiveBuffers, s.cfg.BufferSize
	in.area = make([]byte, (n+1)*size)
	if in.handle, err = s.sock.RegisterMemory(ctx, in.area, verbs.MemWrite); err != nil {
		return err
	}
	in.items.init(n + offers)
	in.fetching.init(s)
	in.slots = make([]recvSlot, n)
	for i := range in.slots {
		t := &in.slots[i]
		t.buf = in.area[i*size : (i+1)*size]
		t.sge[0] = verbs.BufferEx{Handle: in.handle, Offset: i * size, Length: size}
		t.over.Complete = func(over *verbs.Overlapped) { s.received(t, over) }
		if err := s.sock.Recv(&t.over, t.sge[:], verbs.Defer); err != nil {
			return err
		}
	}
	return s.sock.Commit()
}

// received handles a message, and has its buffer posted again. Called with mu held, but by
// the Close of the socket, when the stream is dead.
//
// Source: [WSD §4], [WSD §5.1]
func (s *Stream) received(t *recvSlot, over *verbs.Overlapped) {
	if s.dead || s.in.broken {
		return
	}
	n, err := s.sock.GetResult(over)
	if err != nil {
		s.lost(err)
		return
	}
	m, keep, err := s.handle(t.buf[:n])
	if err != nil {
		s.in.broken = true
		s.fail(err)
		return
	}
	s.counts.messagesIn.Add(1)
	s.used(&s.in.usage, n)
	if m.Type == s.in.first {
		if err := s.sock.Recv(over, t.sge[:], verbs.Defer); err != nil {
			s.lost(err)
		}
		return
	}
	ok, calm := s.out.arrived(t, &m, keep)
	if !ok {
		s.in.broken = true
		s.fail(violation("%v: more messages or credits than there may be", m.Type))
	}
	if calm {
		s.in.calm++
		s.in.spent = true
	}
	if m.Credits > 0 {
		s.baton.signal(&s.writer)
	}
}

// lost ends the stream as the connection below has ended: in good order, if the peer has
// said so before.
func (s *Stream) lost(err error) {
	if s.in.left {
		s.fail(ErrPeerClosed)
		return
	}
	s.fail(connectionError(&s.sock, err))
}

// handle does what a message asks for. An error ends the stream. keep says that its credit
// is owed only when the program has read what it had.
func (s *Stream) handle(b []byte) (m Message, keep bool, err error) {
	if m, err = Decode(b); err != nil {
		return m, false, err
	}
	in := &s.in
	if m.Sequence != in.sequence {
		return m, false, violation("%v: sequence %d instead of %d", m.Type, m.Sequence, in.sequence)
	}
	in.sequence++
	if !in.met {
		return m, false, s.meet(&m)
	}
	keep, err = s.take(&m)
	return m, keep, err
}

// meet takes in the first message.
//
// Source: [WSD §3.3]
func (s *Stream) meet(m *Message) error {
	if m.Type != s.in.first {
		return violation("%v at the beginning", m.Type)
	}
	peer, err := DecodeNegotiation(m.Payload)
	if err != nil {
		return err
	}
	if int(m.Credits) != peer.Buffers {
		return violation("%v: %d credits for %d buffers", m.Type, m.Credits, peer.Buffers)
	}
	own := s.negotiation()
	s.peerReads, s.copies = peer.CanRead, copiesFirst(&s.sock, &peer)
	s.depth = s.fetchDepth()
	s.out.begin(&own, &peer, m.Type == TypeNegotiateAck)
	s.in.met = true
	s.baton.signal(&s.reader)
	return nil
}

// take does what a message of an established session asks for.
func (s *Stream) take(m *Message) (keep bool, err error) {
	switch m.Type {
	case TypeData:
		return s.takeData(m.Payload)
	case TypeUrgent:
		return false, s.takeUrgent(m.Payload)
	case TypeOffer:
		return s.takeOffer(m)
	case TypeReady:
		return false, s.out.takeReady(m)
	case TypeDone:
		if m.Flags&FlagYours == 0 {
			return false, s.takeWritten(m)
		}
		return false, s.out.takeDone(m)
	case TypeFail:
		if m.Flags&FlagYours == 0 {
			return false, s.takeWithdrawal(m)
		}
		return false, s.out.takeFail(m)
	case TypeCredit:
		return false, nil
	case TypeShutdown:
		return false, s.takeShutdown(m)
	case TypeSuspend, TypeSuspendAck, TypeResume:
		return false, ErrSuspend
	case TypeNegotiate, TypeNegotiateAck:
	}
	return false, violation("%v in the middle", m.Type)
}

// takeData takes in bytes of the stream: into the memory of the Read that waits for them,
// as far as that goes.
//
// Source: [WSD §5.1]
func (s *Stream) takeData(p []byte) (keep bool, err error) {
	in := &s.in
	switch {
	case in.eof:
		return false, violation("%v after the end of the stream", TypeData)
	case in.discard:
		return false, nil
	}
	s.runIn.add(len(p), &s.runOut)
	if in.items.len() == 0 && len(in.dst) > in.got {
		n := copy(in.dst[in.got:], p)
		in.got += n
		p = p[n:]
	}
	s.reader.bulk = s.runIn.isBulk()
	s.baton.signal(&s.reader)
	if len(p) == 0 {
		return false, nil
	}
	c := newChunk(len(p))
	in.items.push(item{data: c.fill(p), chunk: c})
	return true, nil
}
