package stream

import (
	"sync"

	"lwio/rsock/internal/verbs"
)

// outgoing is one offer of this side. The peer reads the memory of the offer, or this side
// writes its content to memory of the peer. offers.mu guards it.
type outgoing struct {
	id        uint32
	total     uint64 // bytes to be moved by RDMA
	moved     uint64 // bytes that were moved, as known here
	piece     *piece // the staging memory, or nil for memory of a Write that waits
	handle    verbs.Handle
	offset    int   // in the memory of handle
	withdrawn bool  // Write wants the rest back
	writing   bool  // an RDMA Write is in flight
	over      bool  // the peer does not access the memory any more
	err       error // why less than total was moved
}

// offers are the offers of this side that are not finished. Safe for concurrent use. mu comes
// before the locks of the sender and the stage.
//
// Source: [WSD §5.2], [WSD §5.3]
type offers struct {
	c     *connection
	tx    *sender
	stage *stage

	mu        sync.Mutex // guards the fields below
	limit     int        // unfinished offers that the peer takes
	last      uint32     // id of the last offer
	open      []*outgoing
	withdrawn uint32 // id of the last offer that was withdrawn from a peer that does not read

	// The one RDMA Write in flight, of open[0].
	over       verbs.Overlapped
	sge        [1]verbs.BufferEx
	asked      uint64 // bytes of memory that the peer has made ready
	done       uint64 // bytes of asked that are written
	part       int    // bytes in flight
	size       int    // of descriptor, in bytes
	descriptor [MaxDescriptor]byte
}

func (f *offers) init(c *connection, tx *sender, g *stage) {
	f.c, f.tx, f.stage = c, tx, g
	f.over.Complete = f.written
}

// begin takes the negotiation of the peer.
func (f *offers) begin(peer *Negotiation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = min(peer.Offers, maxOffers)
}

// find returns an unfinished offer, or nil.
func (f *offers) find(id uint32) *outgoing {
	for _, t := range f.open {
		if t.id == id {
			return t
		}
	}
	return nil
}

// offer sends an offer and returns true, if the peer takes one more offer and a message can
// be sent. head is stream data in the message that is not part of t.
func (f *offers) offer(t *outgoing, head, descriptor []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.open) >= f.limit {
		return false
	}
	m := Message{
		Type: TypeOffer, Transfer: f.last + 1, Total: t.total + uint64(len(head)),
		Descriptor: descriptor, Payload: head,
	}
	if len(head) > 0 {
		m.Flags = FlagBegins
	}
	if !f.tx.trySend(&m, keptClass) {
		return false
	}
	f.last++
	t.id = f.last
	f.open = append(f.open, t)
	f.c.counts.bytesOffered.Add(t.total)
	return true
}

// finishLocked ends an offer.
func (f *offers) finishLocked(t *outgoing, err error) {
	t.over, t.err = true, err
	for i := range f.open {
		if f.open[i] == t {
			f.open = append(f.open[:i], f.open[i+1:]...)
			break
		}
	}
	if t.piece != nil {
		f.stage.give(t.piece)
	}
	f.c.signal(&f.c.writeWait)
	f.c.signal(&f.c.closeWait)
}

// takeDone handles the peer's message about the end of an offer: the peer has fetched all of
// it, does not want it, or has fetched a part of a withdrawn offer.
//
// Source: [WSD §5.2]
func (f *offers) takeDone(m *Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	peerReads := f.c.peer.CanRead
	t := f.find(m.Transfer)
	if t == nil || t.writing || m.Total > t.total || m.Total < t.total && !(t.withdrawn && peerReads) {
		if t == nil && m.Transfer <= f.withdrawn && !peerReads {
			return nil
		}
		return violation("%v: %d bytes of transfer %d", m.Type, m.Total, m.Transfer)
	}
	t.moved = m.Total
	f.finishLocked(t, nil)
	return nil
}

// takeFail handles the peer's message that it has no memory for the rest of an offer. A
// Write of data in staging memory has returned already and cannot report the failure, so the
// stream ends.
//
// Source: [WSD §5.4]
func (f *offers) takeFail(m *Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.find(m.Transfer)
	switch {
	case t == nil && m.Transfer <= f.withdrawn && !f.c.peer.CanRead:
		return nil
	case t == nil || t.writing || m.Total >= t.total || m.Status != FailNoBuffers:
		return violation("%v: %d bytes of transfer %d", m.Type, m.Total, m.Transfer)
	case t.piece != nil:
		return ErrNoBuffers
	}
	t.moved = m.Total
	f.finishLocked(t, ErrNoBuffers)
	return nil
}

// takeReady handles the peer's message that memory for an offer is ready, and writes there.
//
// Source: [WSD §5.3]
func (f *offers) takeReady(m *Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.c.peer.CanRead {
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
	return f.writeLocked(t)
}

// writeLocked posts the next RDMA Write.
func (f *offers) writeLocked(t *outgoing) error {
	f.part = int(min(f.asked-f.done, uint64(f.c.sock.Options().MaxRdmaSize)))
	f.sge[0] = verbs.BufferEx{Handle: t.handle, Offset: t.offset + int(t.moved), Length: f.part}
	err := f.c.sock.RdmaWrite(&f.over, f.sge[:], f.descriptor[:f.size], uint32(f.done), 0)
	switch errno := verbs.ErrnoOf(err); {
	case err == nil:
		return nil
	case errno == verbs.EINVAL, errno == verbs.EFAULT:
		err = violation("%v: transfer %d: %v", TypeReady, t.id, err)
	default:
		err = f.c.errorBelow(err)
	}
	t.writing = false
	return err
}

// written handles the completion of an RDMA Write.
func (f *offers) written(over *verbs.Overlapped) {
	f.mu.Lock()
	t := f.open[0]
	_, err := f.c.sock.GetResult(over)
	if err == nil {
		t.moved += uint64(f.part)
		f.done += uint64(f.part)
		if f.done < f.asked {
			err = f.writeLocked(t)
		} else {
			t.writing = false
			f.tx.enqueue(Message{Type: TypeDone, Transfer: t.id, Total: f.asked})
			if t.moved == t.total {
				f.finishLocked(t, nil)
			}
			f.c.signal(&f.c.writeWait)
		}
	} else {
		t.writing = false
		err = f.c.errorBelow(err)
	}
	f.mu.Unlock()
	if err != nil {
		f.c.fail(err)
	}
}

// withdraw ends the access to the memory of an offer. It returns true if the access has
// ended. A side that writes stops between two RDMA Writes. A peer that reads gets a message,
// and its answer ends the access.
//
// Source: [WSD §7]
func (f *offers) withdraw(t *outgoing) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case t.over:
		return true
	case t.writing:
		return false
	case !t.withdrawn:
		t.withdrawn = true
		f.tx.enqueue(Message{Type: TypeFail, Transfer: t.id, Status: FailWithdrawn})
		if !f.c.peer.CanRead {
			f.withdrawn = t.id
			f.finishLocked(t, nil)
		}
		f.tx.flush()
	}
	return t.over
}

// dropAll ends all offers without an RDMA Write in flight. Precondition: the peer accesses no
// memory any more.
func (f *offers) dropAll(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.open) - 1; i >= 0; i-- {
		if t := f.open[i]; !t.writing {
			f.finishLocked(t, err)
		}
	}
}

// isOver reports whether the peer does not access the memory of an offer any more.
func (f *offers) isOver(t *outgoing) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.over
}
