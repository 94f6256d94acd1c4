package iwarp

import (
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// Post queues requests. It writes as many bytes as the socket takes at once, unless
// another goroutine is already writing.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Read]
func (qp *queuePair) Post(reqs []rdma.Request) (int, error) {
	n, err := 0, error(nil)
	qp.Initiator.Lock()
	next := qp.Initiator.Next
	for ; n < len(reqs); n++ {
		if status := qp.postLocked(&reqs[n]); status != rdma.StatusSuccess {
			err = opError("post", reqs[n].Op.String(), status, nil)
			break
		}
	}
	c := qp.c
	taken := n > 0 && c.tx.wakeLocked() && c.tx.takeLocked()
	over := qp.Initiator.Next != next && qp.Initiator.Done != qp.Initiator.Next
	qp.Initiator.Unlock()
	if over {
		qp.Initiator.Settle(0)
	}
	if taken && c.tx.frameTaken() {
		c.tx.pump()
	}
	return n, err
}

// postLocked checks a request and queues it.
func (qp *queuePair) postLocked(r *rdma.Request) rdma.Status {
	if r.Op == rdma.OpBind {
		qp.Initiator.Windows.AdoptLocked(r)
	}
	connected := qp.State == softrdma.PairConnected && qp.c.ending.Load() == nil
	if status := qp.Initiator.AdmitLocked(r, connected); status != rdma.StatusSuccess {
		return status
	}
	if r.Op == rdma.OpBind || r.Op == rdma.OpInvalidate {
		return qp.Initiator.PushWindowLocked(r, qp.reads.own.Len())
	}
	length, status := qp.Initiator.CheckData(r, qp.c.limits.Outbound)
	if status == rdma.StatusSuccess && r.Op == rdma.OpWrite && r.File != nil {
		status = qp.checkFile(r)
	}
	if status == rdma.StatusSuccess {
		qp.Initiator.PushLocked(r, length)
	}
	return status
}
