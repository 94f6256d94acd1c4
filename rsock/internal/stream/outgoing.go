package stream

import (
	"lwio/rsock/internal/verbs"
)

// outgoing is what this side offers. outbound.mu guards it.
type outgoing struct {
	id        uint32
	total     uint64 // bytes to be moved by RDMA
	moved     uint64 // that were, as far as this side knows
	piece     *piece // that they are in, or nil: memory of a Write that waits
	handle    verbs.Handle
	offset    int   // in the memory of handle
	withdrawn bool  // Write wants to keep the rest
	writing   bool  // an RDMA Write is in progress
	over      bool  // the peer does not touch the memory any more
	err       error // why less was moved
}

// offersOut are the offers of this side. outbound.mu guards them.
type offersOut struct {
	most      int  // that may be unfinished
	peerReads bool // else this side writes
	last      uint32
	open      []*outgoing // unfinished, the oldest first
	withdrawn uint32      // the last that was

	over       verbs.Overlapped // of the one RDMA Write in progress
	sge        [1]verbs.BufferEx
	asked      uint64 // bytes that the peer has lent memory for
	done       uint64 // of them written
	part       int    // in progress
	size       int    // of descriptor
	descriptor [MaxDescriptor]byte
}

func (f *offersOut) init(peer *Negotiation) {
	f.most, f.peerReads = min(peer.Offers, maxOffers), peer.CanRead
}

// find gives an unfinished offer, or nil.
func (f *offersOut) find(id uint32) *outgoing {
	for _, t := range f.open {
		if t.id == id {
			return t
		}
	}
	return nil
}

// offer sends an offer, if there is room for one more, and tells whether it did. What is in
// the payload of the message is not part of t.
func (o *outbound) offer(t *outgoing, head, descriptor []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &o.sending
	if len(f.open) >= f.most {
		return false
	}
	m := Message{
		Type: TypeOffer, Transfer: f.last + 1, Total: t.total + uint64(len(head)),
		Descriptor: descriptor, Payload: head,
	}
	if len(head) > 0 {
		m.Flags = FlagBegins
	}
	if !o.trySendLocked(&m, parked) {
		return false
	}
	f.last++
	t.id = f.last
	f.open = append(f.open, t)
	o.s.counts.bytesOffered.Add(t.total)
	return true
}

// finishLocked ends an offer.
func (o *outbound) finishLocked(t *outgoing, err error) {
	t.over, t.err = true, err
	f := &o.sending
	for i := range f.open {
		if f.open[i] == t {
			f.open = append(f.open[:i], f.open[i+1:]...)
			break
		}
	}
	if t.piece != nil {
		o.stage.giveLocked(t.piece)
	}
	o.s.baton.signal(&o.s.writer)
	o.s.baton.signal(&o.s.closer)
}

// takeDone takes in that the peer has fetched, or does not want, all of an offer, or as much
// as it had when it was withdrawn.
//
// Source: [WSD §5.2]
func (o *outbound) takeDone(m *Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.sending.find(m.Transfer)
	if t == nil || t.writing || m.Total > t.total || m.Total < t.total && !(t.withdrawn && o.sending.peerReads) {
		if t == nil && m.Transfer <= o.sending.withdrawn && !o.sending.peerReads {
			return nil
		}
		return violation("%v: %d bytes of transfer %d", m.Type, m.Total, m.Transfer)
	}
	t.moved = m.Total
	o.finishLocked(t, nil)
	return nil
}

// takeFail takes in that the peer has no memory for the rest of an offer. If it is in
// memory of the stream, its Write is over, and cannot be told.
//
// Source: [WSD §5.4]
func (o *outbound) takeFail(m *Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.sending.find(m.Transfer)
	switch {
	case t == nil && m.Transfer <= o.sending.withdrawn && !o.sending.peerReads:
		return nil
	case t == nil || t.writing || m.Total >= t.total || m.Status != FailNoBuffers:
		return violation("%v: %d bytes of transfer %d", m.Type, m.Total, m.Transfer)
	case t.piece != nil:
		return ErrNoBuffers
	}
	t.moved = m.Total
	o.finishLocked(t, ErrNoBuffers)
	return nil
}

// takeReady takes in that the peer lends memory for an offer, and writes there.
//
// Source: [WSD §5.3]
func (o *outbound) takeReady(m *Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &o.sending
	if f.peerReads {
		return violation("%v from a side that reads", m.Type)
	}
	t := f.find(m.Transfer)
	if t == nil && m.Transfer <= f.withdrawn {
		return nil
	}
	if t == nil || t != f.open[0] || t.writing || m.Total > t.total-t.moved {
		return violation("%v: %d bytes for transfer %d", m.Type, m.Total, m.Transfer)
	}
	t.writing = true
	f.asked, f.done = m.Total, 0
	f.size = copy(f.descriptor[:], m.Descriptor)
	return o.writeLocked(t)
}

// writeLocked posts the next RDMA Write.
func (o *outbound) writeLocked(t *outgoing) error {
	f := &o.sending
	f.part = int(min(f.asked-f.done, uint64(o.s.sock.Options().MaxRdmaSize)))
	f.sge[0] = verbs.BufferEx{Handle: t.handle, Offset: t.offset + int(t.moved), Length: f.part}
	err := o.s.sock.RdmaWrite(&f.over, f.sge[:], f.descriptor[:f.size], uint32(f.done), 0)
	switch errno := verbs.ErrnoOf(err); {
	case err == nil:
		return nil
	case errno == verbs.EINVAL, errno == verbs.EFAULT:
		err = violation("%v: transfer %d: %v", TypeReady, t.id, err)
	default:
		err = connectionError(&o.s.sock, err)
	}
	t.writing = false
	return err
}

// written is called when an RDMA Write has ended.
func (o *outbound) written(over *verbs.Overlapped) {
	o.mu.Lock()
	f := &o.sending
	t := f.open[0]
	_, err := o.s.sock.GetResult(over)
	if err == nil {
		t.moved += uint64(f.part)
		f.done += uint64(f.part)
		if f.done < f.asked {
			err = o.writeLocked(t)
		} else {
			t.writing = false
			o.enqueueLocked(Message{Type: TypeDone, Transfer: t.id, Total: f.asked})
			if t.moved == t.total {
				o.finishLocked(t, nil)
			}
			o.s.baton.signal(&o.s.writer)
		}
	} else {
		t.writing = false
		err = connectionError(&o.s.sock, err)
	}
	o.mu.Unlock()
	if err != nil {
		o.s.fail(err)
	}
}

// withdraw wants the memory of an offer back, and tells whether it is: one who is writing
// can stop at once, one whose peer reads has to be told.
//
// Source: [WSD §7]
func (o *outbound) withdraw(t *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case t.over:
		return true
	case t.writing:
		return false
	case !t.withdrawn:
		t.withdrawn = true
		o.enqueueLocked(Message{Type: TypeFail, Transfer: t.id, Status: FailWithdrawn})
		if !o.sending.peerReads {
			o.sending.withdrawn = t.id
			o.finishLocked(t, nil)
		}
		o.flushLocked()
	}
	return t.over
}

// dropAll ends all offers, as the peer takes nothing any more.
func (o *outbound) dropAll(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := len(o.sending.open) - 1; i >= 0; i-- {
		if t := o.sending.open[i]; !t.writing {
			o.finishLocked(t, err)
		}
	}
}

// isOver tells whether the memory of an offer is this side's again.
func (o *outbound) isOver(t *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.over
}
