//go:build linux

package shm

import (
	"runtime/debug"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// compactMax is the largest size, in bytes, of a copy that is made with the lock of the
// initiator queue held.
const compactMax = 512

// idleLocked reports whether no unsent request precedes the request that was just pushed.
// Results may still wait for the completion queue.
func (qp *queuePair) idleLocked() bool {
	q := &qp.Initiator
	return !q.Sending && q.Next+1 == q.Requests.Tail && qp.reads.Len() == 0 && qp.peerReads.Len() == 0
}

// plainWrite reports whether a request is a write of one piece of memory, without
// immediate data.
func plainWrite(r *rdma.Request, length int) bool {
	return r.Op == rdma.OpWrite && r.File == nil && length > 0 && len(r.SGL) <= 1 && r.Flags&rdma.FlagImmediate == 0
}

// plainSend reports whether a request is a short message of one piece.
func plainSend(r *rdma.Request, length int) bool {
	return r.Op == rdma.OpSend && length <= compactMax && len(r.SGL) <= 1
}

// placeLocked carries out a plain write at once, if the peer's memory can be accessed
// directly. It releases the lock while it copies. It is a short form of pump.
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
		qp.sentLocked(s, &one[0])
	}
	return n > 0
}

// placeSomeLocked carries out the leading short plain writes, if no request precedes them
// and the peer's memory can be accessed directly. It returns their number.
func (qp *queuePair) placeSomeLocked(reqs []rdma.Request) int {
	q := &qp.Initiator
	if reqs[0].Op != rdma.OpWrite || q.Sending || q.Next != q.Requests.Tail || qp.reads.Len() > 0 || qp.peerReads.Len() > 0 {
		return 0
	}
	n := 0
	for room := qp.Config.InitiatorDepth - q.Requests.Len(); n < min(len(reqs), room); n++ {
		r := &reqs[n]
		if length, status := qp.checkLocked(r); status != rdma.StatusSuccess || length > compactMax || !plainWrite(r, length) {
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
		qp.sentLocked(q.Requests.Push(), &reqs[i])
	}
	return done
}

// stageLocked puts a short message into the ring at once, if there is room. Post commits
// it. The goroutine that takes the right to send next wakes the peer without the lock,
// because only the right to send keeps the segments mapped.
func (qp *queuePair) stageLocked(s *softrdma.WorkRequest, r *rdma.Request, length int) bool {
	if !qp.conn.Load().tx.stage(r, length) {
		return false
	}
	qp.unannounced, qp.staged = true, true
	qp.sentLocked(s, r)
	return true
}

// commitLocked makes staged messages visible to the peer.
func (qp *queuePair) commitLocked() {
	if qp.staged {
		qp.staged = false
		t := &qp.conn.Load().tx
		t.out.Commit()
		t.staged.drop()
	}
}

// peerPollsLocked reports whether the peer finds new messages without a wake-up.
func (qp *queuePair) peerPollsLocked() bool {
	return qp.State == softrdma.PairConnected && qp.conn.Load().waker.peerPolls()
}

// sentLocked fills the slot of a successful request and marks the request as sent.
func (qp *queuePair) sentLocked(s *softrdma.WorkRequest, r *rdma.Request) {
	s.Op, s.Flags, s.ID, s.Real, s.Status = r.Op, r.Flags, r.ID, 0, rdma.StatusSuccess
	s.Pending = false
	if qp.Initiator.Next++; r.Flags&rdma.FlagSilentSuccess != 0 && qp.Initiator.Done+1 == qp.Initiator.Next {
		qp.Initiator.Done++
	}
}

// place copies plain writes directly into the peer's memory, if every earlier write and
// read is placed. It stops at the first write whose target cannot be accessed directly,
// and returns the number of placed writes.
func (t *sender) place(reqs []rdma.Request) (n int, err error) {
	if !t.out.OnlySends() {
		return 0, nil
	}
	defer t.endPlacing(debug.SetPanicOnFault(true), &err)
	maps := &t.c.mappings
	for ; n < len(reqs); n++ {
		r := &reqs[n]
		data := r.Inline
		if r.Flags&rdma.FlagInline == 0 {
			e := &r.SGL[0]
			if !t.data.held.hold(t.c.a.Domain.RegionOf(e.Region)) {
				return n, errRegionClosed
			}
			data = t.data.held.g.Bytes()[e.Offset : e.Offset+e.Length]
		}
		dst := maps.acquire(r.Remote.Addr, uint32(r.Remote.Token), len(data), ring.SlotWrite)
		if dst == nil {
			break
		}
		softrdma.Place(dst, data, &maps.fence)
	}
	return n, nil
}

// endPlacing is deferred around copies into the peer's memory; old is the result of
// debug.SetPanicOnFault. It releases the references that the copies held, and turns a
// fault into the error.
func (t *sender) endPlacing(old bool, err *error) {
	if e := recovered(old, recover()); e != nil {
		*err = e
	}
	t.data.held.drop()
	t.c.mappings.release()
}

// stage puts a message of one piece into the ring, if there is room. The caller commits
// it and then drops staged, the reference to the piece's region.
func (t *sender) stage(r *rdma.Request, length int) bool {
	e := ring.Entry{Kind: ring.CompactSend, Flags: ring.FlagFirst, Length: uint32(length), Total: uint32(length)}
	if need, err := t.lacksRoom(e.Size()); need > 0 || err != nil {
		return false
	}
	data := r.Inline
	if r.Flags&rdma.FlagInline == 0 {
		data = nil
		if length > 0 {
			piece := &r.SGL[0]
			if !t.staged.hold(t.c.a.Domain.RegionOf(piece.Region)) {
				return false
			}
			data = t.staged.g.Bytes()[piece.Offset : piece.Offset+length]
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
