package stream

import "lwio/rsock/internal/verbs"

// incoming is what the peer offers. Stream.mu guards it.
type incoming struct {
	id         uint32
	rest       uint64 // bytes that are not fetched
	moved      uint64 // that are
	coming     int    // of rest, on their way
	size       int    // of descriptor; 0: the peer writes to memory of this side
	descriptor [MaxDescriptor]byte
	withdrawn  bool // the peer wants to keep the rest
	over       bool // nothing more comes of it
}

// left is how many bytes of an offer nobody has asked for.
func (t *incoming) left() uint64 {
	if t.withdrawn {
		return 0
	}
	return t.rest - uint64(t.coming)
}

// takeOffer takes in an offer.
//
// Source: [WSD §5.2], [WSD §5.3]
func (s *Stream) takeOffer(m *Message) (keep bool, err error) {
	in := &s.in
	rest := m.Total - uint64(len(m.Payload))
	switch {
	case in.eof:
		return false, violation("%v after the end of the stream", m.Type)
	case m.Transfer != in.transfer+1:
		return false, violation("%v: transfer %d after %d", m.Type, m.Transfer, in.transfer)
	case in.offers == offers:
		return false, violation("%v: more than %d unfinished", m.Type, offers)
	case (len(m.Descriptor) > 0) != s.canRead():
		return false, violation("%v: a descriptor of %d bytes for this side", m.Type, len(m.Descriptor))
	case rest > verbs.MaxOffset:
		return false, violation("%v: %d bytes", m.Type, rest)
	}
	in.transfer++
	in.offers++
	t := &incoming{id: m.Transfer, rest: rest, size: len(m.Descriptor)}
	copy(t.descriptor[:], m.Descriptor)
	if in.discard {
		s.finishLocked(t, t.rest)
		return false, nil
	}
	it := item{offer: t}
	if len(m.Payload) > 0 {
		it.chunk = newChunk(len(m.Payload))
		it.data = it.chunk.fill(m.Payload)
	}
	in.items.push(it)
	s.baton.signal(&s.reader)
	return it.chunk != nil, nil
}

// finishLocked ends an offer of which nothing more is wanted, and tells the peer, if that
// does not know. dropped is how many bytes count as moved that were not.
func (s *Stream) finishLocked(t *incoming, dropped uint64) {
	t.over = true
	s.in.offers--
	if t.size > 0 || dropped > 0 {
		s.out.enqueue(Message{Type: TypeDone, Flags: FlagYours, Transfer: t.id, Total: t.moved + dropped})
	}
	t.rest = 0
}

// refuseLocked gives an offer up for want of memory.
//
// Source: [WSD §5.4]
func (s *Stream) refuseLocked(t *incoming) {
	t.over, t.rest = true, 0
	s.in.offers--
	s.out.enqueue(Message{Type: TypeFail, Flags: FlagYours, Transfer: t.id, Status: FailNoBuffers, Total: t.moved})
	s.out.flush()
	s.baton.signal(&s.reader)
}

// takeWithdrawal takes in that the peer wants to keep the rest of an offer. One who reads
// says how much it has got; one who has lent memory knows that the peer does not write any
// more.
func (s *Stream) takeWithdrawal(m *Message) error {
	in := &s.in
	if m.Transfer > in.transfer || m.Status != FailWithdrawn || m.Total != 0 {
		return violation("%v: transfer %d, status %d", m.Type, m.Transfer, m.Status)
	}
	for i := range in.items.len() {
		t := in.items.at(i).offer
		if t == nil || t.id != m.Transfer || t.over {
			continue
		}
		t.withdrawn = true
		if f := in.fetching.lentTo; f != nil && f.offer == t {
			s.settleLocked(f, 0)
			return nil
		}
		if t.coming > 0 {
			return nil // the end of the fetch sees it
		}
		s.finishLocked(t, 0)
		s.baton.signal(&s.reader)
		return nil
	}
	return nil // it has ended meanwhile, and the peer is told
}

// drainLocked fetches what a peer that has closed still offers, so that it need not wait
// for the program of this side, and then tells it that it may go. What would take too much
// memory, or more than one RDMA Read, waits for the program.
func (s *Stream) drainLocked() {
	in := &s.in
	if !in.left || in.told || s.failure() != nil {
		return
	}
	var total uint64
	for i := range in.items.len() {
		if t := in.items.at(i).offer; t != nil {
			total += t.rest
		}
	}
	if !in.fetching.isIdle() || total > drainLimit {
		return
	}
	for i := range in.items.len() {
		it := in.items.at(i)
		if it.offer == nil || it.offer.over {
			continue
		}
		if it.offer.size > 0 && it.offer.rest > uint64(s.sock.Options().MaxRdmaSize) {
			return
		}
		size := len(it.data) + int(it.offer.rest)
		if !s.cfg.Memory.take(size) {
			return // the program's Read fetches it
		}
		whole := make([]byte, size)
		kept := copy(whole, it.data)
		if s.fetchInto(&in.fetching.aside, it.offer, whole[kept:]) {
			in.fetching.whole = whole
			in.drained += size
			return
		}
		s.cfg.Memory.give(size)
		return // for want of memory; the program's Read fetches it
	}
	in.told = true
	s.out.enqueue(Message{Type: TypeShutdown, Flags: FlagTaken})
}
