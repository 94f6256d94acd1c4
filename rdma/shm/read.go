//go:build linux

package shm

import (
	"errors"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// maxReads is the number of RDMA reads that a connection may have in progress in each
// direction.
const maxReads = 128

// errReads means that the peer has more reads in progress than its limit.
var errReads = errors.New("the peer has more reads in progress than its limit")

// peerRead is a read of the peer without a complete answer.
type peerRead struct {
	grant    softrdma.Grant // unused for a read of 0 bytes
	source   []byte
	answered bool // the answer is completely in the ring
}

// peerLimits returns the read limits of the peer's message as this side sees them,
// clipped.
//
// Source: [ND Connector.GetReadLimits]
func peerLimits(h *hello) rdma.ReadLimits {
	return rdma.ReadLimits{Inbound: clipReads(h.limits.Outbound), Outbound: clipReads(h.limits.Inbound)}
}

// params returns the content of the message for the connector.
func (h *hello) params() *softrdma.PeerParams {
	return &softrdma.PeerParams{Private: h.private, Limits: peerLimits(h)}
}

// agree lowers this side's read limits to the peer's limits.
func agree(own rdma.ReadLimits, peer *hello) rdma.ReadLimits {
	p := peerLimits(peer)
	return rdma.ReadLimits{Inbound: min(clipReads(own.Inbound), p.Inbound), Outbound: min(clipReads(own.Outbound), p.Outbound)}
}

func clipReads(n int) int { return min(max(n, 0), maxReads) }

// requestRead puts a read into the ring that cannot be carried out directly.
func (t *sender) requestRead(s *softrdma.WorkRequest) (need int, err error) {
	if need, err = t.lacks(0); need > 0 || err != nil {
		return need, err
	}
	qp := t.c.qp
	qp.Initiator.Lock()
	s.Pending = true
	*qp.reads.Push() = s
	qp.Initiator.Unlock()
	t.out.Publish(&ring.Entry{Kind: ring.ReadRequest, Total: uint32(s.Length), Token: uint32(s.Remote.Token), Addr: s.Remote.Addr})
	t.c.waker.wake()
	return 0, nil
}

// errSinkClosed returns the error for a read with a closed sink.
func errSinkClosed() error {
	return &violation{status: rdma.StatusRemoteError, reading: rdma.StatusAccessViolation, err: errRegionClosed}
}

// readRequest checks a read of the peer and queues it.
//
// Source: [ND QueuePair.Read], [RFC 5042 §6.4.3.3]
func (r *receiver) readRequest(e *ring.Entry) error {
	if e.Length != 0 {
		return protocolError()
	}
	var a peerRead
	if e.Total > 0 {
		var refused softrdma.Refusal
		if a.grant, a.source, refused = r.find(e, rdma.AccessRemoteRead); refused != softrdma.Granted {
			return &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
		}
	}
	qp := r.c.qp
	qp.Initiator.Lock()
	pending := qp.peerReads.Len()
	if pending > 0 && qp.peerReads.At(qp.peerReads.Head).answered {
		pending-- // the peer may have seen the end of its answer
	}
	excess := pending >= r.c.limits.Inbound
	if !excess {
		*qp.peerReads.Push() = a
	}
	qp.Initiator.Unlock()
	if excess {
		return &violation{status: rdma.StatusRemoteError, err: errReads}
	}
	r.c.tx.more.Store(true)
	return nil
}

// readResponder answers the reads of the peer. It belongs to the goroutine that has the
// right to send.
type readResponder struct {
	t    *sender
	sent int // bytes of the first answer that are in the ring
}

// respond puts the answer to a read of the peer into the ring. need is the room that it
// waits for, or 0 when the answer is completely in the ring.
func (p *readResponder) respond(a *peerRead) (need int, err error) {
	t := p.t
	for {
		left := len(a.source) - p.sent
		n := min(left, t.chunk)
		if need, err = t.lacks(n); need > 0 || err != nil {
			return need, err
		}
		if n > 0 {
			if !a.grant.Acquire() {
				return 0, &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
			}
			x, y := t.out.Payload(ring.HeaderSize, n)
			copy(y, a.source[p.sent+copy(x, a.source[p.sent:]):])
			a.grant.Release()
		}
		if n == left {
			t.c.qp.Initiator.Lock()
			a.answered = true
			t.c.qp.Initiator.Unlock()
		}
		t.out.Publish(&ring.Entry{Kind: ring.ReadResponse, Length: uint32(n), Total: uint32(left)})
		t.c.waker.wake()
		if p.sent += n; n == left {
			return 0, nil
		}
	}
}

// finish removes the read whose answer is completely in the ring. From then on the peer
// may read the region directly, if its memory can be exported.
func (p *readResponder) finish() {
	qp := p.t.c.qp
	p.sent = 0
	qp.Initiator.Lock()
	a := qp.peerReads.At(qp.peerReads.Head)
	g := a.grant.Region
	*a = peerRead{}
	qp.peerReads.Head++
	qp.Initiator.Unlock()
	if g != nil && g.Acquire() {
		p.t.c.exports.offer(g)
		g.Release()
	}
}

// readResponse places a part of the answer to the first unanswered read.
func (r *receiver) readResponse(e *ring.Entry) error {
	qp := r.c.qp
	qp.Initiator.Lock()
	var s *softrdma.WorkRequest
	if qp.reads.Len() > 0 {
		s = *qp.reads.At(qp.reads.Head)
	}
	qp.Initiator.Unlock()
	if s == nil || int(e.Total) != s.Length-r.read {
		return protocolError()
	}
	a, b := r.in.Payload(e)
	if !r.scatter(s.Pieces, r.read, a) || !r.scatter(s.Pieces, r.read+len(a), b) {
		return errSinkClosed()
	}
	r.read += int(e.Length)
	if e.Length != e.Total {
		return nil
	}
	r.read = 0
	qp.Initiator.Lock()
	s.Pending = false
	qp.reads.Head++
	qp.Initiator.Unlock()
	r.c.tx.more.Store(true)
	return nil
}
