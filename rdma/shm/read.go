//go:build linux

package shm

import (
	"errors"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// maxReads is how many RDMA reads of each direction a connection may have in
// progress.
const maxReads = 128

// errReads says that the peer has more reads in progress than it may.
var errReads = errors.New("the peer reads more at once than it may")

// answer is a read of the peer that is not answered to the last byte.
type answer struct {
	lease  softrdma.Lease // unused if nothing is asked for
	source []byte
	over   bool // it is all in the ring
}

// peerLimits are the peer's wishes as this side sees them, clipped.
//
// Source: [ND Connector.GetReadLimits]
func peerLimits(h *hello) rdma.ReadLimits {
	return rdma.ReadLimits{Inbound: clipReads(h.limits.Outbound), Outbound: clipReads(h.limits.Inbound)}
}

// heard is what the peer said with the message.
func (h *hello) heard() *softrdma.PeerParams {
	return &softrdma.PeerParams{Private: h.private, Limits: peerLimits(h)}
}

// agree lowers this side's wishes to what the peer's allow.
func agree(own rdma.ReadLimits, peer *hello) rdma.ReadLimits {
	p := peerLimits(peer)
	return rdma.ReadLimits{Inbound: min(clipReads(own.Inbound), p.Inbound), Outbound: min(clipReads(own.Outbound), p.Outbound)}
}

func clipReads(n int) int { return min(max(n, 0), maxReads) }

// ask puts a read that cannot be done directly into the ring.
func (t *sender) ask(s *softrdma.WorkRequest) (need int, err error) {
	if need, err = t.lacks(0); need > 0 || err != nil {
		return need, err
	}
	qp := t.c.qp
	qp.Initiator.Lock()
	s.Pending = true
	*qp.reads.Push() = s
	qp.Initiator.Unlock()
	t.out.Publish(&ring.Entry{Kind: ring.ReadRequest, Total: uint32(s.Length), Token: uint32(s.Remote.Token), Addr: s.Remote.Addr})
	t.c.wake()
	return 0, nil
}

// get takes the data of the current request, a read, out of the peer's memory.
func (t *sender) get(src []byte) error {
	pieces := t.current.Pieces
	for i := range pieces {
		p := &pieces[i]
		if !t.hold(p.Region) {
			return errSinkClosed()
		}
		softrdma.Place(p.Buf, src[:len(p.Buf)], &t.c.targets.fence)
		t.unhold()
		src = src[len(p.Buf):]
	}
	return nil
}

// errSinkClosed says that the sink of a read is gone.
func errSinkClosed() error {
	return &violation{status: rdma.StatusRemoteError, reading: rdma.StatusAccessViolation, err: errRegionClosed}
}

// readRequest checks what the peer wants to read, and queues the answer.
//
// Source: [ND QueuePair.Read], [RFC 5042 §6.4.2]
func (r *receiver) readRequest(e *ring.Entry) error {
	if e.Length != 0 {
		return protocolError()
	}
	var a answer
	if e.Total > 0 {
		var refused softrdma.Refusal
		if a.lease, a.source, refused = r.find(e, rdma.AccessRemoteRead); refused != softrdma.Granted {
			return &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
		}
	}
	qp := r.c.qp
	qp.Initiator.Lock()
	under := qp.answers.Len()
	if under > 0 && qp.answers.At(qp.answers.Head).over {
		under-- // the peer may know that already
	}
	excess := under >= r.c.limits.Inbound
	if !excess {
		*qp.answers.Push() = a
	}
	qp.Initiator.Unlock()
	if excess {
		return &violation{status: rdma.StatusRemoteError, err: errReads}
	}
	r.c.tx.kick.Store(true)
	return nil
}

// answer puts the answer to a read of the peer into the ring. need is the room
// that it waits for, or 0 when it is all in.
func (t *sender) answer(a *answer) (need int, err error) {
	for {
		left := len(a.source) - t.answered
		n := min(left, t.chunk)
		if need, err = t.lacks(n); need > 0 || err != nil {
			return need, err
		}
		if n > 0 {
			if !a.lease.Acquire() {
				return 0, &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
			}
			x, y := t.out.Payload(ring.HeaderSize, n)
			copy(y, a.source[t.answered+copy(x, a.source[t.answered:]):])
			a.lease.Release()
		}
		if n == left {
			t.c.qp.Initiator.Lock()
			a.over = true
			t.c.qp.Initiator.Unlock()
		}
		t.out.Publish(&ring.Entry{Kind: ring.ReadResponse, Length: uint32(n), Total: uint32(left)})
		t.c.wake()
		if t.answered += n; n == left {
			return 0, nil
		}
	}
}

// dropAnswer ends the answer that is all in the ring. From then on the peer may
// read the region directly, if its memory can be shared.
func (t *sender) dropAnswer() {
	qp := t.c.qp
	t.answered, t.turn = 0, false
	qp.Initiator.Lock()
	a := qp.answers.At(qp.answers.Head)
	g := a.lease.Region
	*a = answer{}
	qp.answers.Head++
	qp.Initiator.Unlock()
	if g != nil && g.Acquire() {
		t.c.offer(g)
		g.Release()
	}
}

// answer places a part of the answer to the first read that is not answered.
func (r *receiver) answer(e *ring.Entry) error {
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
	r.c.tx.kick.Store(true)
	return nil
}
