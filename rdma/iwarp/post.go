package iwarp

import (
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// Post queues requests and writes as much of them as the socket takes at once,
// unless another goroutine is writing already.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Read]
func (qp *queuePair) Post(reqs []rdma.Request) (int, error) {
	n, err := 0, error(nil)
	qp.mu.Lock()
	next := qp.next
	for ; n < len(reqs); n++ {
		if status := qp.postLocked(&reqs[n]); status != rdma.StatusSuccess {
			err = opError("post", reqs[n].Op.String(), status, nil)
			break
		}
	}
	c := qp.c
	taken := n > 0 && c.tx.wakeLocked() && c.tx.takeLocked()
	over := qp.next != next && qp.done != qp.next
	qp.mu.Unlock()
	if over {
		qp.settle(0)
	}
	if taken && c.tx.frameTaken() {
		c.tx.pump()
	}
	return n, err
}

// postLocked checks a request and queues it.
func (qp *queuePair) postLocked(r *rdma.Request) rdma.Status {
	if r.Op == rdma.OpBind {
		qp.windows.AdoptLocked(r)
	}
	flagParam := 4
	switch r.Op {
	case rdma.OpSend:
	case rdma.OpWrite:
		flagParam = 6
	case rdma.OpBind:
		flagParam = 6
	case rdma.OpRead, rdma.OpInvalidate, rdma.OpFetchAdd, rdma.OpCompareSwap:
	default:
		return rdma.StatusInvalidParameter
	}
	if qp.state != softrdma.PairConnected || qp.c.ending.Load() != nil {
		return rdma.StatusConnectionInvalid
	}
	if !r.Op.Allows(r.Flags) {
		return rdma.StatusInvalidParameterN(flagParam)
	}
	if qp.sends.Len() >= qp.cfg.InitiatorDepth {
		return rdma.StatusNoMoreEntries
	}
	if r.Op == rdma.OpBind || r.Op == rdma.OpInvalidate {
		return qp.postWindowLocked(r)
	}
	length, file, status := qp.checkData(r)
	if status != rdma.StatusSuccess {
		return status
	}
	s := qp.sends.Push()
	s.op, s.flags, s.id, s.length, s.remote, s.immediate = r.Op, r.Flags, r.ID, length, r.Remote, r.Immediate
	s.status, s.pending, s.file = rdma.StatusSuccess, false, file
	switch {
	case r.Flags&rdma.FlagInline != 0:
		s.pieces, s.inline = s.pieces[:0], append(s.inline[:0], r.Inline...)
		return rdma.StatusSuccess
	case file != nil:
		s.fileOffset, s.real = r.FileOffset, 0
	case r.Op.IsAtomic():
		s.atomic = r.Atomic
	}
	if s.pieces == nil {
		s.pieces = s.room[:0]
	}
	s.pieces = softrdma.AppendPieces(s.pieces[:0], r.SGL)
	return rdma.StatusSuccess
}

// checkData checks where the data of a request is, or goes to, and tells how many bytes that
// are, and the file that they come from, if they do.
func (qp *queuePair) checkData(r *rdma.Request) (length int, file *fileSource, status rdma.Status) {
	access := rdma.Access(0)
	asks := r.Op == rdma.OpRead || r.Op.IsAtomic()
	if asks {
		access = rdma.AccessLocalWrite | rdma.AccessReadSink
	}
	switch {
	case asks && qp.c.limits.Outbound == 0:
		return 0, nil, rdma.StatusInvalidDeviceRequest
	case r.Op == rdma.OpWrite && r.File != nil:
		file, status = qp.checkFile(r)
		return r.FileLength, file, status
	case r.Flags&rdma.FlagOnlyIfCached != 0:
		return 0, nil, rdma.StatusInvalidParameterMix
	case r.Flags&rdma.FlagInline != 0:
		if len(r.Inline) > qp.cfg.InlineSize {
			return 0, nil, rdma.StatusBufferOverflow
		}
		return len(r.Inline), nil, rdma.StatusSuccess
	}
	length, status = qp.a.dom.CheckSGL(r.SGL, qp.cfg.MaxInitiatorSGE, access)
	if status == rdma.StatusSuccess && r.Op.IsAtomic() && length != atomicWord {
		status = rdma.StatusInvalidBufferSize
	}
	return length, nil, status
}

// postWindowLocked checks a bind or an invalidate and queues it; if nothing is
// before it, it is carried out at once, and a silent one is over then.
//
// Source: [ND QueuePair.Bind], [ND QueuePair.Invalidate], [OP-111b]
func (qp *queuePair) postWindowLocked(r *rdma.Request) rdma.Status {
	now := !qp.writing && qp.next == qp.sends.Tail && (r.Flags&rdma.FlagReadFence == 0 || qp.reads.Len() == 0)
	work, status := qp.windows.PostLocked(r, now)
	if status != rdma.StatusSuccess || now && r.Flags&rdma.FlagSilentSuccess != 0 {
		return status
	}
	s := qp.sends.Push()
	s.op, s.flags, s.id, s.length, s.work = r.Op, r.Flags, r.ID, 0, work
	s.pieces, s.inline, s.status, s.pending = s.pieces[:0], s.inline[:0], rdma.StatusSuccess, false
	s.file, s.real = nil, 0
	if now {
		qp.next++
	}
	return rdma.StatusSuccess
}

// Rest gives back the pages of the receives that wait.
func (qp *queuePair) TrimIdle() { qp.recv.TrimIdle() }

// PostReceive queues receives.
func (qp *queuePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) { return qp.recv.Post(reqs) }
