//go:build linux

package shm

import (
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// Post queues requests and carries out those for which there is room, unless another
// goroutine already sends. It copies a send into the ring. A write is copied directly
// into the peer's memory, or into the ring if that memory cannot be accessed directly. A
// read is copied out of the peer's memory.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Read]
func (qp *queuePair) Post(reqs []rdma.Request) (int, error) {
	n, err := 0, error(nil)
	qp.Initiator.Lock()
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
	if !qp.Initiator.Sending && qp.unannounced && qp.peerPollsLocked() {
		qp.unannounced = false
	}
	c := qp.takeSendingLocked()
	qp.Initiator.Unlock()
	if c != nil {
		c.tx.pump(false, 0)
	}
	return n, err
}

// errNotCached is the error of FlagOnlyIfCached. It is allocated once because it occurs
// often.
var errNotCached = opError("post", rdma.OpWrite.String(), rdma.StatusDeviceBusy, nil)

// postSomeLocked carries out or queues the first request, and possibly further requests
// together with it. It returns their number, 0 with an error.
func (qp *queuePair) postSomeLocked(reqs []rdma.Request) (int, rdma.Status) {
	r := &reqs[0]
	if r.Op == rdma.OpWrite && r.Flags&rdma.FlagOnlyIfCached != 0 {
		if n, status := qp.postPairLocked(reqs); n > 0 || status != rdma.StatusSuccess {
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

// postLocked checks one request and queues it, or carries it out at once. It may release
// the lock meanwhile.
func (qp *queuePair) postLocked(one []rdma.Request) rdma.Status {
	r := &one[0]
	if r.Op == rdma.OpBind {
		qp.Initiator.Windows.AdoptLocked(r)
	}
	if r.Op == rdma.OpBind || r.Op == rdma.OpInvalidate {
		status := qp.admitLocked(r)
		if status == rdma.StatusSuccess {
			status = qp.Initiator.PushWindowLocked(r, qp.reads.Len())
		}
		return status
	}
	length, status := qp.checkLocked(r)
	if status != rdma.StatusSuccess {
		return status
	}
	s := qp.Initiator.Requests.Push()
	if qp.idleLocked() && (plainWrite(r, length) && qp.placeLocked(s, one) || plainSend(r, length) && qp.stageLocked(s, r, length)) {
		return rdma.StatusSuccess
	}
	s.Set(r, length)
	if n := len(r.SGL); n > 0 && r.SGL[n-1].Length == 0 {
		s.Flags &^= rdma.FlagByReference // the last piece is not the last entry of the list
	}
	return rdma.StatusSuccess
}

// admitLocked checks the parts of a request other than its data.
func (qp *queuePair) admitLocked(r *rdma.Request) rdma.Status {
	if r.Op.IsAtomic() {
		return rdma.StatusNotSupported
	}
	connected := qp.State == softrdma.PairConnected && qp.conn.Load().ending.Load() == nil
	return qp.Initiator.AdmitLocked(r, connected)
}

// checkLocked checks a send, a write or a read, and returns its length in bytes.
func (qp *queuePair) checkLocked(r *rdma.Request) (int, rdma.Status) {
	if status := qp.admitLocked(r); status != rdma.StatusSuccess {
		return 0, status
	}
	return qp.checkDataLocked(r)
}

// checkDataLocked checks the data of an admitted send, write or read, and returns its
// length in bytes.
func (qp *queuePair) checkDataLocked(r *rdma.Request) (int, rdma.Status) {
	length, status := qp.Initiator.CheckData(r, qp.conn.Load().limits.Outbound)
	if status == rdma.StatusSuccess && r.Op == rdma.OpWrite && r.File != nil {
		status = qp.checkFile(r)
	}
	return length, status
}

// checkFile checks the file of a write. Precondition: the range was checked.
func (qp *queuePair) checkFile(r *rdma.Request) rdma.Status {
	f, ok := r.File.(*fileSource)
	if !ok {
		return rdma.StatusInvalidParameter
	}
	return f.Check(qp.Domain)
}

// TrimIdle returns the pages of the posted receives to the system. It also returns the
// pages of this side's ring, unless a goroutine is sending.
func (qp *queuePair) TrimIdle() {
	qp.Receives.TrimIdle()
	qp.Initiator.Lock()
	c := qp.conn.Load()
	free := qp.State == softrdma.PairConnected && !qp.Initiator.Sending && c.ending.Load() == nil
	qp.Initiator.Sending = qp.Initiator.Sending || free
	qp.Initiator.Unlock()
	if free {
		c.tx.out.TrimIdle()
		c.tx.pump(false, 0) // sends requests that were posted meanwhile
	}
}
