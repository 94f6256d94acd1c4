//go:build linux

package shm

import (
	"runtime/debug"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// idleLocked tells whether nothing is to be done before the request that was just
// given a slot. Results of what is done may still have to be put in the queue.
func (qp *queuePair) idleLocked() bool {
	return !qp.Initiator.Sending && qp.Initiator.Next+1 == qp.Initiator.Requests.Tail && qp.reads.Len() == 0 && qp.answers.Len() == 0
}

// plainWrite tells whether a request is a write of one piece of memory and nothing
// else.
func plainWrite(r *rdma.Request, length int) bool {
	return r.Op == rdma.OpWrite && r.File == nil && length > 0 && len(r.SGL) <= 1 && r.Flags&rdma.FlagImmediate == 0
}

// briefWrite is the size up to which a copy is so short that others may wait for it.
const briefWrite = 512

// placeLocked does such a write at once, if the peer's memory can be reached. It lets go
// of the lock while it copies. It is the short form of all that pump does.
func (qp *queuePair) placeLocked(s *softrdma.WorkRequest, one []rdma.Request) bool {
	t := &qp.conn.Load().tx
	qp.commitLocked()
	qp.Initiator.Sending = true
	qp.Initiator.Unlock()
	n, err := t.place(one)
	if err != nil {
		t.fail(err)
	}
	qp.Initiator.Lock()
	qp.Initiator.ReleaseSendingLocked()
	if n > 0 {
		qp.skipLocked(s, &one[0])
	}
	return n > 0
}

// placeSomeLocked does brief writes at once, if there is nothing before them and the
// peer's memory can be reached, from the first request on; it tells how many.
func (qp *queuePair) placeSomeLocked(reqs []rdma.Request) int {
	if reqs[0].Op != rdma.OpWrite || qp.Initiator.Sending || qp.Initiator.Next != qp.Initiator.Requests.Tail || qp.reads.Len() > 0 || qp.answers.Len() > 0 {
		return 0
	}
	n := 0
	for room := qp.Config.InitiatorDepth - qp.Initiator.Requests.Len(); n < min(len(reqs), room); n++ {
		r := &reqs[n]
		if length, status := qp.checkLocked(r); status != rdma.StatusSuccess || length > briefWrite || !plainWrite(r, length) {
			break
		}
	}
	if n == 0 {
		return 0
	}
	t := &qp.conn.Load().tx
	done, err := t.place(reqs[:n])
	if err != nil {
		t.fail(err)
	}
	for i := range reqs[:done] {
		qp.skipLocked(qp.Initiator.Requests.Push(), &reqs[i])
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
func (qp *queuePair) tellLocked(s *softrdma.WorkRequest, r *rdma.Request, length int) bool {
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
		t := &qp.conn.Load().tx
		t.out.Commit()
		t.letGo()
	}
}

// heardLocked tells whether the peer looks by itself for such messages, so that nobody
// needs to wake it.
func (qp *queuePair) heardLocked() bool {
	return qp.State == softrdma.PairConnected && qp.conn.Load().peer.Sleep.Load()&ring.SleepMask == ring.Awake
}

// skipLocked makes the slot that of a request which is done.
func (qp *queuePair) skipLocked(s *softrdma.WorkRequest, r *rdma.Request) {
	s.Op, s.Flags, s.ID, s.Real, s.Status = r.Op, r.Flags, r.ID, 0, rdma.StatusSuccess
	s.Pending = false
	if qp.Initiator.Next++; r.Flags&rdma.FlagSilentSuccess != 0 && qp.Initiator.Done+1 == qp.Initiator.Next {
		qp.Initiator.Done++
	}
}

// place copies plain writes into their places, as far as those can be reached, if every
// write and read before them is over; it tells how many.
func (t *sender) place(reqs []rdma.Request) (n int, err error) {
	if !t.out.OnlySends() {
		return 0, nil
	}
	defer t.endPlacing(debug.SetPanicOnFault(true), &err)
	for ; n < len(reqs); n++ {
		r := &reqs[n]
		data := r.Inline
		if r.Flags&rdma.FlagInline == 0 {
			e := &r.SGL[0]
			if g := t.c.a.Domain.RegionOf(e.Region); g != t.held {
				t.unhold()
				if !t.hold(g) {
					return n, errRegionClosed
				}
			}
			data = t.held.Bytes()[e.Offset : e.Offset+e.Length]
		}
		dst := t.c.hold(r.Remote.Addr, uint32(r.Remote.Token), len(data), ring.SlotWrite)
		if dst == nil {
			break
		}
		softrdma.Place(dst, data, &t.c.targets.fence)
	}
	return n, nil
}

// endPlacing is deferred by what copies into the peer's memory, with what SetPanicOnFault
// returned: it gives back what was held for that, and a fault becomes the error.
func (t *sender) endPlacing(old bool, err *error) {
	if e := recovered(old, recover()); e != nil {
		*err = e
	}
	t.unhold()
	t.c.letGo()
}

// tell puts a message of one piece into the ring, if there is room and nothing is
// wrong. The caller commits it, which ends the use of the piece's region too.
func (t *sender) tell(r *rdma.Request, length int) bool {
	e := ring.Entry{Kind: ring.CompactSend, Flags: ring.FlagFirst, Length: uint32(length), Total: uint32(length)}
	if need, err := t.lacksRoom(e.Size()); need > 0 || err != nil {
		return false
	}
	data := r.Inline
	if r.Flags&rdma.FlagInline == 0 {
		data = nil
		if length > 0 {
			piece := &r.SGL[0]
			g := t.c.a.Domain.RegionOf(piece.Region)
			if !t.keep(g) {
				return false
			}
			data = g.Bytes()[piece.Offset : piece.Offset+length]
		}
	}
	a, b := t.out.Payload(ring.CompactSize, length)
	copy(b, data[copy(a, data):])
	if r.Flags&rdma.FlagSolicitEvent != 0 {
		e.Flags |= ring.FlagSolicited
	}
	t.out.Stage(&e)
	return true
}

// keep takes a reference to a region, unless it is the one that is kept for messages
// which are posted together.
func (t *sender) keep(g *softrdma.Region) bool {
	if g == t.kept {
		return true
	}
	if !g.Acquire() {
		return false
	}
	t.letGo()
	t.kept = g
	return true
}

// letGo gives it back.
func (t *sender) letGo() {
	if t.kept != nil {
		t.kept.Release()
		t.kept = nil
	}
}
