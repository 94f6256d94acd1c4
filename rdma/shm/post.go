//go:build linux

package shm

import (
	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// Post queues requests and does as many of them as there is room for at once,
// unless another goroutine is sending already: a send, or a write to memory that
// cannot be reached directly, is copied into the ring; a write that can is copied
// into its place, and a read from there.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Read]
func (qp *queuePair) Post(reqs []rdma.Request) (int, error) {
	n, err := 0, error(nil)
	for ; n < len(reqs); n++ {
		if status := qp.post(&reqs[n]); status != rdma.StatusSuccess {
			err = opError("post", reqs[n].Op.String(), status, nil)
			break
		}
	}
	if n > 0 {
		qp.start()
	}
	return n, err
}

// post checks a request and queues it, or does it at once if that is what it
// wants.
func (qp *queuePair) post(r *rdma.Request) rdma.Status {
	if r.Op == rdma.OpWrite && r.Flags&rdma.FlagOnlyIfCached != 0 {
		qp.start() // what was posted before comes first
		return qp.postCached(r)
	}
	qp.mu.Lock()
	defer qp.mu.Unlock()
	length, status := qp.checkLocked(r)
	if status == rdma.StatusSuccess {
		qp.sends.Push().set(r, length)
	}
	return status
}

// checkLocked checks a request and tells how many bytes it moves.
func (qp *queuePair) checkLocked(r *rdma.Request) (int, rdma.Status) {
	flagParam := 4
	switch r.Op {
	case rdma.OpSend:
	case rdma.OpWrite:
		flagParam = 6
	case rdma.OpRead:
	case rdma.OpBind, rdma.OpInvalidate, rdma.OpFetchAdd, rdma.OpCompareSwap:
		return 0, rdma.StatusNotSupported
	default:
		return 0, rdma.StatusInvalidParameter
	}
	if qp.state != pairConnected || qp.conn.Load().ending.Load() != nil {
		return 0, rdma.StatusConnectionInvalid
	}
	fromFile := r.Op == rdma.OpWrite && r.File != nil
	inline := r.Flags&rdma.FlagInline != 0
	if !r.Op.FlagsLegal(r.Flags) || fromFile && inline || !fromFile && r.Flags&rdma.FlagOnlyIfCached != 0 {
		return 0, rdma.StatusInvalidParameterN(flagParam)
	}
	if qp.sends.Len() >= qp.cfg.InitiatorDepth {
		return 0, rdma.StatusNoMoreEntries
	}
	switch {
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
		return qp.checkSGL(r.SGL, qp.cfg.MaxInitiatorSGE, rdma.AccessLocalWrite|rdma.AccessReadSink)
	}
	return qp.checkSGL(r.SGL, qp.cfg.MaxInitiatorSGE, 0)
}

// checkFile checks the file that a write takes its data from.
func (qp *queuePair) checkFile(r *rdma.Request) (int, rdma.Status) {
	f, ok := r.File.(*fileSource)
	switch {
	case !ok || f == nil || f.a != qp.a || f.closed.Load():
		return 0, rdma.StatusAccessViolation
	case r.FileOffset < 0 || r.FileLength < 0:
		return 0, rdma.StatusInvalidParameter
	case r.FileLength > soft.MaxTransfer || r.FileOffset+int64(r.FileLength) < 0:
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
		s.pieces = appendPieces(s.pieces, r.SGL)
	}
}

// checkSGL checks a scatter/gather list, whose regions need one of the rights in
// access, if there is any in it, and tells how many bytes the list names.
func (qp *queuePair) checkSGL(sgl []rdma.SGE, most int, access rdma.Access) (int, rdma.Status) {
	if len(sgl) > most {
		return 0, rdma.StatusDataOverrun
	}
	length := 0
	for i := range sgl {
		if sgl[i].Length > soft.MaxTransfer-length {
			return 0, rdma.StatusBufferOverflow
		}
		length += max(sgl[i].Length, 0)
	}
	for i := range sgl {
		e := &sgl[i]
		r, ok := e.Region.(*region)
		if !ok || r == nil || r.a != qp.a || access != 0 && r.access&access == 0 || !r.open() ||
			e.Offset < 0 || e.Length < 0 || e.Offset > len(r.buf) || e.Length > len(r.buf)-e.Offset {
			return 0, rdma.StatusAccessViolation
		}
	}
	return length, rdma.StatusSuccess
}

// appendPieces translates a checked list; empty entries are left out.
func appendPieces(ps []piece, sgl []rdma.SGE) []piece {
	for i := range sgl {
		if e := &sgl[i]; e.Length > 0 {
			r := e.Region.(*region)
			ps = append(ps, piece{r, r.buf[e.Offset : e.Offset+e.Length]})
		}
	}
	return ps
}

// PostReceive queues receives. After the end of the connection they end at once
// with StatusCanceled.
//
// Source: [ND QueuePair.Receive]
func (qp *queuePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	qp.recvMu.Lock()
	defer qp.recvMu.Unlock()
	n, err := 0, error(nil)
	for ; n < len(reqs); n++ {
		if status := qp.postReceiveLocked(&reqs[n]); status != rdma.StatusSuccess {
			err = opError("post", "receive", status, nil)
			break
		}
	}
	if qp.flushed {
		qp.cancelRecvs = qp.receives.Tail
		qp.cancelReceivesLocked()
	}
	return n, err
}

func (qp *queuePair) postReceiveLocked(r *rdma.ReceiveRequest) rdma.Status {
	if qp.closedRecv {
		return rdma.StatusInvalidHandle
	}
	if qp.receives.Len() >= qp.cfg.ReceiveDepth {
		return rdma.StatusNoMoreEntries
	}
	length, status := qp.checkSGL(r.SGL, qp.cfg.MaxReceiveSGE, rdma.AccessLocalWrite)
	if status != rdma.StatusSuccess {
		return status
	}
	p := qp.receives.Push()
	p.id, p.length = r.ID, length
	p.pieces = appendPieces(p.pieces[:0], r.SGL)
	return rdma.StatusSuccess
}
