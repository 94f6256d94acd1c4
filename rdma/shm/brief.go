//go:build linux

package shm

import (
	"runtime/debug"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// idleLocked tells whether nothing is to be done before the request that was just
// given a slot.
func (qp *queuePair) idleLocked() bool {
	return !qp.writing && qp.next+1 == qp.sends.Tail && qp.done == qp.next && qp.answers.Len() == 0
}

// plainWrite tells whether a request is a write of one piece of memory and nothing
// else.
func plainWrite(r *rdma.Request, length int) bool {
	return r.Op == rdma.OpWrite && r.File == nil && length > 0 && len(r.SGL) <= 1 && r.Flags&rdma.FlagImmediate == 0
}

// briefWrite is the size up to which a copy is so short that others may wait for it.
const briefWrite = 512

// placeLocked does such a write at once, if the peer's memory can be reached. It
// lets go of the lock while it copies much. It is the short form of all that pump
// does.
func (qp *queuePair) placeLocked(s *sendRequest, r *rdma.Request, length int) bool {
	t := &qp.conn.Load().tx
	if length > briefWrite {
		qp.commitLocked()
		qp.writing = true
		qp.mu.Unlock()
	}
	done, err := t.place(r, length)
	if err != nil {
		t.fail(err)
	}
	if length > briefWrite {
		qp.mu.Lock()
		qp.writing = false
		qp.idle.Broadcast()
	}
	if done {
		qp.skipLocked(s, r)
	}
	return done
}

// plainSend tells whether a request is a short message of one piece.
func plainSend(r *rdma.Request, length int) bool {
	return r.Op == rdma.OpSend && length <= briefWrite && len(r.SGL) <= 1
}

// tellLocked puts such a message into the ring at once, if there is room. Post lets
// the peer see it, and who takes the baton next, which is Post too, wakes the peer
// without the lock: only the baton keeps the segments mapped then.
func (qp *queuePair) tellLocked(s *sendRequest, r *rdma.Request, length int) bool {
	if !qp.conn.Load().tx.tell(r, length) {
		return false
	}
	qp.told, qp.staged = true, true
	qp.skipLocked(s, r)
	return true
}

// commitLocked lets the peer see such messages.
func (qp *queuePair) commitLocked() {
	if qp.staged {
		qp.staged = false
		qp.conn.Load().tx.out.commit()
	}
}

// skipLocked makes the slot that of a request which is done.
func (qp *queuePair) skipLocked(s *sendRequest, r *rdma.Request) {
	s.op, s.flags, s.id, s.real, s.status = r.Op, r.Flags, r.ID, 0, rdma.StatusSuccess
	s.pending = false
	if qp.next++; r.Flags&rdma.FlagSilentSuccess != 0 {
		qp.done++
	}
}

// place copies a write of one piece into its place, if that can be reached and
// every write and read before it is over.
func (t *sender) place(r *rdma.Request, length int) (done bool, err error) {
	if !t.out.clear() {
		return false, nil
	}
	dst := t.c.hold(r.Remote.Addr, uint32(r.Remote.Token), length, slotWrite)
	if dst == nil {
		return false, nil
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		if e := recovered(old, recover()); e != nil {
			done, err = false, e
		}
		t.unhold()
		t.c.letGo()
	}()
	if r.Flags&rdma.FlagInline != 0 {
		soft.Place(dst, r.Inline, &t.c.targets.fence)
		return true, nil
	}
	e := &r.SGL[0]
	g := t.c.a.dom.RegionOf(e.Region)
	if !t.hold(g) {
		return false, errRegionClosed
	}
	soft.Place(dst, g.Bytes()[e.Offset:e.Offset+length], &t.c.targets.fence)
	return true, nil
}

// tell puts a message of one piece into the ring, if there is room and nothing is
// wrong. The caller commits it.
func (t *sender) tell(r *rdma.Request, length int) bool {
	if need, err := t.lacks(length); need > 0 || err != nil {
		return false
	}
	data := r.Inline
	if r.Flags&rdma.FlagInline == 0 {
		data = nil
		if length > 0 {
			e := &r.SGL[0]
			g := t.c.a.dom.RegionOf(e.Region)
			if !g.Acquire() {
				return false
			}
			defer g.Release()
			data = g.Bytes()[e.Offset : e.Offset+length]
		}
	}
	a, b := t.out.payload(length)
	copy(b, data[copy(a, data):])
	flags := uint8(entryFirst)
	if r.Flags&rdma.FlagSolicitEvent != 0 {
		flags |= entrySolicited
	}
	t.out.stage(entry{kind: entrySend, flags: flags, length: uint32(length), total: uint32(length)})
	return true
}
