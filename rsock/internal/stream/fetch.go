package stream

import (
	"context"
	"fmt"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// fetch is one transfer into this side's memory. Stream.mu guards it.
type fetch struct {
	busy  bool      // it is on its way
	offer *incoming // nil if there is none
	into  []byte
	got   int // bytes, when it is over

	handle verbs.Handle // of into, if it is registered for this alone
	over   verbs.Overlapped
	sge    [1]verbs.BufferEx
}

// fetching are the transfers into this side's memory, which end in the order in which they
// began. Stream.mu guards it.
type fetching struct {
	aside  fetch            // into memory of the stream
	whole  []byte           // of which aside.into is the end; before it is what was not read then
	direct [maxDirect]fetch // into that of a Read, in the order of the stream, the oldest at first
	first  int
	used   int  // of direct
	busy   int  // transfers on their way
	broken bool // one brought less than it should

	lent       int    // size of descriptor, while the peer may write
	lentTo     *fetch // what it writes for
	descriptor [MaxDescriptor]byte

	temp       rdma.Memory  // for small reads; nil if there is none
	tempHandle verbs.Handle // of temp, on a side that reads
	stuck      bool         // memory stays with the peer until the socket is closed
	tempUsed   bool         // since giveBack looked
}

// init says what happens when a transfer is over.
func (f *fetching) init(s *Stream) {
	f.aside.over.Complete = func(*verbs.Overlapped) { s.fetched(&f.aside) }
	for i := range f.direct {
		d := &f.direct[i]
		d.over.Complete = func(*verbs.Overlapped) { s.fetched(d) }
	}
}

// isIdle tells whether nothing is on its way, or waits for its Read.
func (f *fetching) isIdle() bool { return f.busy == 0 && f.used == 0 }

// oldest is the first of direct.
func (f *fetching) oldest() *fetch { return &f.direct[f.first] }

// next is where the next of direct goes; there must be room.
func (f *fetching) next() *fetch { return &f.direct[(f.first+f.used)%maxDirect] }

// isAside tells whether a part of an offer comes into memory of the stream.
func (f *fetching) isAside(t *incoming) bool { return f.aside.busy && f.aside.offer == t }

// placed is how many bytes of an offer are in memory of a Read that has not taken them, or
// on their way.
func (f *fetching) placed(t *incoming) (n int) {
	for i := range f.used {
		switch d := &f.direct[(f.first+i)%maxDirect]; {
		case d.offer != t:
		case d.busy:
			n += len(d.into)
		default:
			n += d.got
		}
	}
	if f.isAside(t) {
		n += len(f.aside.into)
	}
	return n
}

// portion is how much of an offer is fetched at once, into so many bytes.
func (s *Stream) portion(t *incoming, room int) int {
	return int(min(t.left(), uint64(max(room, 0)), uint64(s.sock.Options().MaxRdmaSize)))
}

// fetchInto asks for so much of an offer as p takes, into memory that is registered for it
// alone. It is false if that is not possible.
//
// Source: [WSD §5.2], [WSD §5.3]
func (s *Stream) fetchInto(f *fetch, t *incoming, p []byte) bool {
	if t.size == 0 {
		return s.lend(f, t, p)
	}
	h, err := s.sock.RegisterMemory(context.Background(), p, verbs.MemWrite)
	if err != nil {
		return false
	}
	f.handle = h
	s.ask(f, t, verbs.BufferEx{Handle: h, Length: len(p)}, p)
	return true
}

// fetchAside asks for the next part of an offer into memory of the stream: what is kept for
// that, or, if none can be had, the end of the control buffers.
func (s *Stream) fetchAside(t *incoming) {
	size := s.cfg.BufferSize
	into, b := s.in.area[len(s.in.area)-size:], verbs.BufferEx{Handle: s.in.handle, Offset: len(s.in.area) - size}
	if temp := s.temp(); temp != nil {
		into, b = temp, verbs.BufferEx{Handle: s.in.fetching.tempHandle}
	}
	into = into[:s.portion(t, len(into))]
	s.in.fetching.whole = into
	switch {
	case t.size > 0:
		b.Length = len(into)
		s.ask(&s.in.fetching.aside, t, b, into)
	case !s.lend(&s.in.fetching.aside, t, into):
		s.refuseLocked(t)
	}
}

// temp is memory for small reads, or nil. It is registered here for a side that reads
// only: what is lent to the peer is the one region on its pages, so that the provider can
// take them from a peer that does not stop.
func (s *Stream) temp() []byte {
	f := &s.in.fetching
	f.tempUsed = true
	if f.temp == nil {
		if !s.cfg.Memory.take(fetchSize) {
			return nil
		}
		m, err := s.sock.Alloc(context.Background(), fetchSize)
		if err != nil {
			s.cfg.Memory.give(fetchSize)
			return nil
		}
		if s.canRead() {
			f.tempHandle, err = s.sock.RegisterMemory(context.Background(), m.Bytes(), verbs.MemWrite)
		}
		if err != nil {
			_ = m.Close() // there is nothing else to do with it
			s.cfg.Memory.give(fetchSize)
			return nil
		}
		f.temp = m
		s.idle.Reset(memoryRest)
	}
	return f.temp.Bytes()
}

// ask posts an RDMA Read. What cannot be posted ends the stream.
func (s *Stream) ask(f *fetch, t *incoming, b verbs.BufferEx, into []byte) {
	f.sge[0] = b
	err := s.sock.RdmaRead(&f.over, f.sge[:], t.descriptor[:t.size], uint32(t.moved+uint64(t.coming)), 0)
	switch errno := verbs.ErrnoOf(err); {
	case err == nil:
		s.begunLocked(f, t, into)
		return
	case errno == verbs.EINVAL, errno == verbs.EFAULT:
		s.fail(violation("%v: transfer %d: %v", TypeOffer, t.id, err))
	default:
		s.fail(connectionError(&s.sock, err))
	}
	s.release(f)
}

// lend asks the peer to write to p.
//
// Source: [WSD §5.3]
func (s *Stream) lend(f *fetch, t *incoming, p []byte) bool {
	g := &s.in.fetching
	n, err := s.sock.RegisterRdmaMemory(context.Background(), p, verbs.MemWrite, g.descriptor[:])
	if err != nil {
		return false
	}
	g.lent, g.lentTo = n, f
	s.begunLocked(f, t, p)
	s.out.enqueue(Message{
		Type: TypeReady, Flags: FlagYours, Transfer: t.id, Total: uint64(len(p)), Descriptor: g.descriptor[:n],
	})
	s.out.flush()
	return true
}

// begunLocked notes that a part of an offer is on its way.
func (s *Stream) begunLocked(f *fetch, t *incoming, into []byte) {
	f.busy, f.offer, f.into, f.got = true, t, into, 0
	t.coming += len(into)
	s.in.fetching.busy++
}

// release takes memory back that was registered for the fetch alone. What does not come back
// ends the stream, and is neither read nor used again: the close of the socket, which ends
// the connection before, is the next to take it.
func (s *Stream) release(f *fetch) {
	var err error
	g := &s.in.fetching
	if f.handle != (verbs.Handle{}) {
		err = s.sock.DeregisterMemory(f.handle)
		f.handle = verbs.Handle{}
	}
	if g.lentTo == f {
		err = s.sock.DeregisterRdmaMemory(g.descriptor[:g.lent])
		g.lentTo = nil
	}
	if err != nil {
		g.stuck = true
		s.fail(fmt.Errorf("memory stays with the peer: %w", err))
	}
}

// fetched is called when an RDMA Read has ended, with mu held but by the Close of the
// socket.
func (s *Stream) fetched(f *fetch) {
	if s.dead {
		return
	}
	g := &s.in.fetching
	n, err := s.sock.GetResult(&f.over)
	if err != nil {
		s.lost(err)
	}
	if g.broken = g.broken || n < len(f.into); g.broken {
		n = 0 // there is a hole before it, or in it
	}
	s.settleLocked(f, n)
}

// takeWritten takes in that the peer has written to memory that was lent to it.
//
// Source: [WSD §5.3]
func (s *Stream) takeWritten(m *Message) error {
	f := s.in.fetching.lentTo
	if f == nil || f.offer.id != m.Transfer || m.Total != uint64(len(f.into)) {
		return violation("%v: %d bytes of transfer %d, which were not asked for", m.Type, m.Total, m.Transfer)
	}
	s.settleLocked(f, len(f.into))
	return nil
}

// settleLocked ends a fetch, which brought n bytes.
func (s *Stream) settleLocked(f *fetch, n int) {
	g, t := &s.in.fetching, f.offer
	if s.release(f); g.stuck {
		n = 0
	}
	f.busy, f.got = false, n
	g.busy--
	t.coming -= len(f.into)
	t.rest -= uint64(n)
	t.moved += uint64(n)
	s.runIn.add(n, &s.runOut)
	s.counts.bytesFetched.Add(uint64(n))
	if f == &g.aside {
		s.storeLocked(t, n)
		f.offer, f.into = nil, nil
	}
	switch {
	case t.coming > 0:
	case t.rest == 0, t.withdrawn:
		s.finishLocked(t, 0)
	case s.in.discard:
		s.finishLocked(t, t.rest)
	}
	s.baton.signal(&s.reader)
	s.baton.signal(&s.closer)
}

// storeLocked leaves what was fetched into memory of the stream to be read.
func (s *Stream) storeLocked(t *incoming, n int) {
	g, in := &s.in.fetching, &s.in
	for i := range in.items.len() {
		it := in.items.at(i)
		if it.offer == t && n == len(g.aside.into) {
			unread := len(it.data) // of what came before, which is in whole too
			if released := s.emptyLocked(it); released > 0 {
				s.out.released(released)
			}
			it.data = g.whole[len(g.whole)-n-unread:]
			break
		}
	}
	g.whole = nil
}

// abandonLocked ends a fetch of a connection that is over, if the peer was to write.
func (s *Stream) abandonLocked() {
	if f := s.in.fetching.lentTo; f != nil && s.failure() != nil {
		s.settleLocked(f, 0)
	}
}
