//go:build linux

package shm

import (
	"errors"
	"runtime/debug"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// receiver takes requests of the peer out of its ring and does what they ask for.
// It is guarded by conn.rxMu.
type receiver struct {
	c       *conn
	in      consumer
	fence   atomic.Uint32
	got     int // bytes of the message in progress
	total   int
	read    int           // bytes of the answer in progress
	results []rdma.Result // of receives, not in the completion queue yet
}

func (r *receiver) init(c *conn) {
	r.c, r.in = c, consumer{peer: c.peer}
	r.results = make([]rdma.Result, 0, maxResults)
}

// What a peer may do wrong.
var (
	errNoReceive = errors.New("no receive is posted for the peer's message")
	errTooLong   = errors.New("the peer's message is longer than the receive")
	errNoRegion  = errors.New("the peer writes where it may not")
)

func protocolError() error { return &violation{status: rdma.StatusRemoteError, err: errRing} }

// drain takes up to budget entries, or all if that is negative.
func (r *receiver) drain(budget int) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		if e := recovered(old, recover()); e != nil {
			err = e
		}
	}()
	taken, any := 0, false
	for ; budget != 0 && r.c.ending.Load() == nil; budget-- {
		e, ok, err := r.in.next()
		if err != nil {
			return &violation{status: rdma.StatusRemoteError, err: err}
		}
		if !ok {
			break
		}
		if err := r.entry(e); err != nil {
			r.push()
			return err
		}
		r.in.take(e)
		any = true
		r.c.own.head.Store(r.in.head)
		if taken += entrySize(int(e.length)); taken >= len(r.in.peer.ring)/4 {
			taken = 0
			r.c.wakeProducer()
		}
	}
	r.push()
	if any {
		r.c.wakeProducer()
	}
	return nil
}

// push puts the results in the completion queue.
func (r *receiver) push() {
	r.c.qp.receiveCQ.Push(r.results)
	r.results = r.results[:0]
}

// entry does what one entry asks for.
func (r *receiver) entry(e entry) error {
	switch e.kind {
	case entrySend:
		return r.message(e)
	case entryWrite:
		return r.write(e)
	case entryRead:
		return r.readRequest(e)
	case entryAnswer:
		return r.answer(e)
	}
	return protocolError()
}

// write places a part of a write, if all the rest of it may be placed.
//
// Source: [OP-88], [OP-89b]
func (r *receiver) write(e entry) error {
	if e.total > 0 {
		if err := r.place(e); err != nil {
			return err
		}
	}
	if e.flags&entryImmediate != 0 && e.length == e.total {
		return r.immediate(e)
	}
	return nil
}

func (r *receiver) place(e entry) error {
	lease, all, refused := r.find(e, rdma.AccessRemoteWrite)
	if refused != soft.Granted || !lease.Acquire() {
		return &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
	}
	defer lease.Release()
	a, b := r.in.payload(e)
	soft.Place(all[:len(a)], a, &r.fence)
	soft.Place(all[len(a):e.length], b, &r.fence)
	if lease.Region != nil && e.length == e.total {
		r.c.offer(lease.Region)
	}
	return nil
}

// find finds the memory that the peer names.
func (r *receiver) find(e entry, right rdma.Access) (soft.Lease, []byte, soft.Refusal) {
	return r.c.qp.windows.Resolve(e.token, e.addr, uint64(e.total), right)
}

// immediate delivers the value that came with a write, which consumes a receive.
//
// Source: [OP-86]
func (r *receiver) immediate(e entry) error {
	qp := r.c.qp
	qp.recvMu.Lock()
	defer qp.recvMu.Unlock()
	if qp.current {
		return protocolError()
	}
	if qp.receives.Len() == 0 {
		return &violation{status: rdma.StatusRemoteError, err: errNoReceive}
	}
	res := qp.popReceiveLocked(rdma.StatusSuccess, 0)
	res.HasImmediate, res.Immediate = true, e.immediate
	r.deliverLocked(res)
	return nil
}

// deliverLocked adds the result of a receive. The caller holds recvMu.
func (r *receiver) deliverLocked(res rdma.Result) {
	qp := r.c.qp
	r.results = append(r.results, res)
	if len(r.results) == maxResults || qp.receives.Head < qp.cancelRecvs {
		r.push()
		qp.cancelReceivesLocked()
	}
}

// message places a part of a message in the first receive.
func (r *receiver) message(e entry) error {
	qp := r.c.qp
	qp.recvMu.Lock()
	defer qp.recvMu.Unlock()
	if e.flags&entryFirst != 0 {
		if qp.current {
			return protocolError()
		}
		if qp.receives.Len() == 0 {
			return &violation{status: rdma.StatusRemoteError, err: errNoReceive}
		}
		qp.current, r.got, r.total = true, 0, int(e.total)
		if r.total > qp.receives.At(qp.receives.Head).length {
			return &violation{status: rdma.StatusBufferOverflow, receive: rdma.StatusBufferOverflow, err: errTooLong}
		}
	} else if !qp.current || int(e.total) != r.total-r.got {
		return protocolError()
	}
	p := qp.receives.At(qp.receives.Head)
	a, b := r.in.payload(e)
	if !scatter(p.pieces, r.got, a) || !scatter(p.pieces, r.got+len(a), b) {
		return &violation{status: rdma.StatusRemoteError, receive: rdma.StatusAccessViolation, err: errRegionClosed}
	}
	r.got += int(e.length)
	if e.length != e.total {
		return nil
	}
	res := qp.popReceiveLocked(rdma.StatusSuccess, r.total)
	res.Solicited = e.flags&entrySolicited != 0
	qp.current = false
	r.deliverLocked(res)
	return nil
}

// scatter puts p at an offset of pieces, where there is room for it.
func scatter(pieces []soft.Piece, at int, p []byte) bool {
	for i := range pieces {
		if len(p) == 0 {
			break
		}
		piece := &pieces[i]
		if at >= len(piece.Buf) {
			at -= len(piece.Buf)
			continue
		}
		n := min(len(piece.Buf)-at, len(p))
		if !piece.Region.Acquire() {
			return false
		}
		copy(piece.Buf[at:at+n], p[:n])
		piece.Region.Release()
		at, p = 0, p[n:]
	}
	return true
}
