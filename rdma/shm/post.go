//go:build linux

package shm

import (
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// Post queues requests and does as many of them as there is room for at once,
// unless another goroutine is sending already: a send, or a write to memory that
// cannot be reached directly, is copied into the ring; a write that can is copied
// into its place, and a read from there.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Read]
func (qp *queuePair) Post(reqs []rdma.Request) (int, error) {
	n, err := 0, error(nil)
	qp.mu.Lock()
	for n < len(reqs) {
		k, status := qp.postSomeLocked(reqs[n:])
		if n += k; status != rdma.StatusSuccess {
			if err = errNotCached; status != rdma.StatusDeviceBusy {
				err = opError("post", reqs[n].Op.String(), status, nil)
			}
			break
		}
	}
	qp.commitLocked()
	if !qp.writing && qp.told && qp.heardLocked() {
		qp.told = false
	}
	c := qp.takeBatonLocked()
	qp.mu.Unlock()
	if c != nil {
		c.tx.pump(false, 0)
	}
	return n, err
}

// errNotCached is the answer to FlagOnlyIfCached, which comes often.
var errNotCached = opError("post", rdma.OpWrite.String(), rdma.StatusDeviceBusy, nil)

// postSomeLocked does or queues the first of the requests, and perhaps others that can be
// done along with it; it tells how many, which is none if there is an error.
func (qp *queuePair) postSomeLocked(reqs []rdma.Request) (int, rdma.Status) {
	r := &reqs[0]
	if r.Op == rdma.OpWrite && r.Flags&rdma.FlagOnlyIfCached != 0 {
		if n, status := qp.postLoneLocked(reqs); n > 0 || status != rdma.StatusSuccess {
			return n, status
		}
		return qp.postCachedLocked(reqs)
	}
	if n := qp.placeSomeLocked(reqs); n > 0 {
		return n, rdma.StatusSuccess
	}
	if status := qp.postLocked(reqs[:1]); status != rdma.StatusSuccess {
		return 0, status
	}
	return 1, rdma.StatusSuccess
}

// postLocked checks one request and queues it, or does it at once, for which it may let go
// of the lock.
func (qp *queuePair) postLocked(one []rdma.Request) rdma.Status {
	r := &one[0]
	switch r.Op {
	case rdma.OpBind:
		qp.windows.AdoptLocked(r)
		return qp.postWindowLocked(r, 6)
	case rdma.OpInvalidate:
		return qp.postWindowLocked(r, 4)
	}
	length, status := qp.checkLocked(r)
	if status != rdma.StatusSuccess {
		return status
	}
	s := qp.sends.Push()
	if qp.idleLocked() && (plainWrite(r, length) && qp.placeLocked(s, one) || plainSend(r, length) && qp.tellLocked(s, r, length)) {
		return rdma.StatusSuccess
	}
	s.set(r, length)
	return rdma.StatusSuccess
}

// postWindowLocked checks a bind or an invalidate and queues it; a silent one that
// has nothing before it is carried out at once, and over then.
//
// Source: [ND QueuePair.Bind], [ND QueuePair.Invalidate], [OP-111b]
func (qp *queuePair) postWindowLocked(r *rdma.Request, flagParam int) rdma.Status {
	if status := qp.admitLocked(r, flagParam); status != rdma.StatusSuccess {
		return status
	}
	now := r.Flags&rdma.FlagSilentSuccess != 0 && !qp.writing && qp.next == qp.sends.Tail &&
		(r.Flags&rdma.FlagReadFence == 0 || qp.reads.Len() == 0)
	work, status := qp.windows.PostLocked(r, now)
	if status == rdma.StatusSuccess && !now {
		s := qp.sends.Push()
		s.set(r, 0)
		s.work = work
	}
	return status
}

// admitLocked tells whether a request with such flags can be taken now.
func (qp *queuePair) admitLocked(r *rdma.Request, flagParam int) rdma.Status {
	switch {
	case qp.state != softrdma.PairConnected || qp.conn.Load().ending.Load() != nil:
		return rdma.StatusConnectionInvalid
	case !r.Op.Allows(r.Flags):
		return rdma.StatusInvalidParameterN(flagParam)
	case qp.sends.Len() >= qp.cfg.InitiatorDepth:
		return rdma.StatusNoMoreEntries
	}
	return rdma.StatusSuccess
}

// checkLocked checks a request and tells how many bytes it moves.
func (qp *queuePair) checkLocked(r *rdma.Request) (int, rdma.Status) {
	flagParam := 4
	switch r.Op {
	case rdma.OpSend:
	case rdma.OpWrite:
		flagParam = 6
	case rdma.OpRead:
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		return 0, rdma.StatusNotSupported
	default:
		return 0, rdma.StatusInvalidParameter
	}
	if status := qp.admitLocked(r, flagParam); status != rdma.StatusSuccess {
		return 0, status
	}
	fromFile := r.Op == rdma.OpWrite && r.File != nil
	inline := r.Flags&rdma.FlagInline != 0
	switch {
	case fromFile && inline, !fromFile && r.Flags&rdma.FlagOnlyIfCached != 0:
		return 0, rdma.StatusInvalidParameterN(flagParam)
	case fromFile:
		return qp.checkFile(r)
	case inline && len(r.Inline) > qp.cfg.InlineSize:
		return 0, rdma.StatusBufferOverflow
	case inline:
		return len(r.Inline), rdma.StatusSuccess
	}
	if r.Op == rdma.OpRead {
		if qp.conn.Load().limits.Outbound == 0 {
			return 0, rdma.StatusInvalidDeviceRequest
		}
		return qp.a.dom.CheckSGL(r.SGL, qp.cfg.MaxInitiatorSGE, rdma.AccessLocalWrite|rdma.AccessReadSink)
	}
	return qp.a.dom.CheckSGL(r.SGL, qp.cfg.MaxInitiatorSGE, 0)
}

// checkFile checks the file that a write takes its data from.
func (qp *queuePair) checkFile(r *rdma.Request) (int, rdma.Status) {
	f, ok := r.File.(*fileSource)
	switch {
	case !ok || f == nil || f.a != qp.a || f.closed.Load():
		return 0, rdma.StatusAccessViolation
	case r.FileOffset < 0 || r.FileLength < 0:
		return 0, rdma.StatusInvalidParameter
	case r.FileLength > softrdma.MaxTransfer || r.FileOffset+int64(r.FileLength) < 0:
		return 0, rdma.StatusBufferOverflow
	}
	return r.FileLength, rdma.StatusSuccess
}

// set fills the slot with a request that was checked.
func (s *sendRequest) set(r *rdma.Request, length int) {
	*s = sendRequest{
		op: r.Op, flags: r.Flags, id: r.ID, length: length, remote: r.Remote, immediate: r.Immediate,
		pieces: s.pieces[:0], inline: s.inline[:0],
	}
	switch {
	case r.Op == rdma.OpWrite && r.File != nil:
		s.file, s.fileOff = r.File.(*fileSource), r.FileOffset
	case r.Flags&rdma.FlagInline != 0:
		s.inline = append(s.inline, r.Inline...)
	default:
		s.pieces = softrdma.AppendPieces(s.pieces, r.SGL)
		if n := len(r.SGL); n > 0 && r.SGL[n-1].Length == 0 {
			s.flags &^= rdma.FlagByReference // that would be another piece
		}
	}
}

// Rest gives back the pages of the receives that wait, and of the ring that this side
// writes, unless somebody is sending.
func (qp *queuePair) TrimIdle() {
	qp.recv.TrimIdle()
	qp.mu.Lock()
	c := qp.conn.Load()
	free := qp.state == softrdma.PairConnected && !qp.writing && c.ending.Load() == nil
	qp.writing = qp.writing || free
	qp.mu.Unlock()
	if free {
		c.tx.out.giveBack()
		c.tx.pump(false, 0) // what was posted meanwhile
	}
}

// PostReceive queues receives.
func (qp *queuePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) { return qp.recv.Post(reqs) }
