//go:build linux

package shm

import (
	"errors"
	"runtime/debug"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// receiver takes entries out of the peer's ring and carries them out. conn.rxMu guards it.
type receiver struct {
	c       *conn
	in      ring.Consumer
	fence   atomic.Uint32
	got     int // received bytes of the message in progress
	total   int
	read    int             // received bytes of the read response in progress
	results bool            // there are results to push
	locked  bool            // the lock of the receives is held, for consecutive messages
	sink    regionRef       // the region of the last copy
	to      softrdma.Poller // gets results directly
	handed  int             // number of results that to received
	stalled atomic.Bool     // the first entry waits for a receive of a shared queue
}

func (r *receiver) init(c *conn) {
	r.c, r.in = c, ring.NewConsumer(c.peer, 0)
}

// Violations of a peer.
var (
	errNoReceive = errors.New("no receive is posted for the peer's message")
	errTooLong   = errors.New("the peer's message is longer than the receive")
	errStalled   = errors.New("no receive in the shared queue yet")
	errNoRegion  = errors.New("the peer has no right to this memory")
)

func protocolError() error {
	return &violation{status: rdma.StatusRemoteError, err: ring.ErrInconsistent}
}

// drain takes up to budget entries, or all entries if budget is negative. After each
// quarter of the ring it pushes the results and announces the free room to the peer.
func (r *receiver) drain(budget int) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		r.release()
		if e := recovered(old, recover()); e != nil {
			err = e
		}
	}()
	taken := 0
	var e ring.Entry
	for ; budget != 0 && r.c.ending.Load() == nil && !r.stalled.Load(); budget-- {
		ok, err := r.in.Next(&e)
		if err != nil {
			return &violation{status: rdma.StatusRemoteError, err: err}
		}
		if !ok {
			break
		}
		if e.Total > softrdma.MaxTransfer {
			return protocolError()
		}
		err = r.entry(&e)
		if errors.Is(err, errStalled) {
			break
		}
		if err != nil {
			r.release()
			r.push()
			return err
		}
		r.in.Take(&e)
		if taken += e.Size(); taken >= r.in.Size()/4 {
			taken = 0
			r.deliverTaken()
		}
	}
	if taken > 0 {
		r.deliverTaken()
	}
	return nil
}

// release releases the lock and the region that are held across messages.
func (r *receiver) release() {
	r.sink.drop()
	if r.locked {
		r.locked = false
		r.c.qp.Receives.Unlock()
	}
}

// deliverTaken pushes results, and announces the room of the taken entries to the peer.
func (r *receiver) deliverTaken() {
	r.c.own.Head.Store(r.in.Head())
	r.push()
	r.release()
	r.c.waker.madeRoom()
}

// push puts the results in the completion queue.
func (r *receiver) push() {
	if !r.results {
		return
	}
	if r.results = false; r.locked {
		r.handed += r.c.qp.Receives.PushToLocked(&r.to)
	} else {
		r.c.qp.Receives.Push()
	}
}

// entry carries out one entry.
func (r *receiver) entry(e *ring.Entry) error {
	if e.Kind == ring.Send || e.Kind == ring.CompactSend {
		return r.message(e)
	}
	if r.in.Skips(e) {
		return nil
	}
	r.release()
	switch e.Kind {
	case ring.SendByReference:
		return r.byReference(e)
	case ring.Write:
		return r.write(e)
	case ring.ReadRequest:
		return r.readRequest(e)
	case ring.ReadResponse:
		return r.readResponse(e)
	}
	return protocolError()
}

// write places a part of a write. The peer must have the right to the whole rest of the
// write.
//
// Source: [OP-88], [OP-89b]
func (r *receiver) write(e *ring.Entry) error {
	immediate := e.Flags&ring.FlagImmediate != 0 && e.Length == e.Total
	if immediate {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if e.Total > 0 {
		if err := r.place(e); err != nil {
			return err
		}
	}
	if immediate {
		r.deliver(&rdma.Result{HasImmediate: true, Immediate: e.Immediate})
	}
	return nil
}

func (r *receiver) place(e *ring.Entry) error {
	grant, all, refused := r.find(e, rdma.AccessRemoteWrite)
	if refused != softrdma.Granted || !grant.Acquire() {
		return &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
	}
	defer grant.Release()
	a, b := r.in.Payload(e)
	softrdma.Place(all[:len(a)], a, &r.fence)
	softrdma.Place(all[len(a):e.Length], b, &r.fence)
	if grant.Region != nil && e.Length == e.Total {
		r.c.exports.offer(grant.Region)
	}
	return nil
}

// find finds the memory that an entry names.
func (r *receiver) find(e *ring.Entry, right rdma.Access) (softrdma.Grant, []byte, softrdma.Refusal) {
	return r.c.qp.Initiator.Windows.Resolve(e.Token, e.Addr, uint64(e.Total), right)
}

// begin takes a receive for a message, or for the immediate data of a write. If a shared
// queue has none, the rest of the ring waits too.
//
// Source: [ND §6.5], [OP-86]
func (r *receiver) begin() error {
	recv := &r.c.qp.Receives
	recv.Lock()
	defer recv.Unlock()
	return r.beginLocked(recv)
}

func (r *receiver) beginLocked(recv *softrdma.ReceiveQueue) error {
	if recv.CurrentLocked() != nil {
		return protocolError()
	}
	if r.c.qp.Queues.Shared != nil {
		r.stalled.Store(true) // before a receive can be announced
	}
	_, status := recv.BeginLocked()
	switch status {
	case rdma.StatusPending:
		return errStalled
	case rdma.StatusSuccess:
		if r.c.qp.Queues.Shared != nil {
			r.stalled.Store(false)
		}
		return nil
	}
	return &violation{status: rdma.StatusRemoteError, err: errNoReceive}
}

func (r *receiver) deliver(with *rdma.Result) {
	recv := &r.c.qp.Receives
	recv.Lock()
	defer recv.Unlock()
	recv.FinishLocked(with)
	r.results = true
}

// message places a part of a message in the first receive. It leaves the lock of the
// receives held until release.
func (r *receiver) message(e *ring.Entry) error {
	recv := &r.c.qp.Receives
	if !r.locked {
		recv.Lock()
		r.locked = true
	}
	if e.Flags&ring.FlagFirst != 0 {
		if err := r.beginLocked(recv); err != nil {
			return err
		}
		r.got, r.total = 0, int(e.Total)
	}
	p := recv.CurrentLocked()
	switch {
	case p == nil, int(e.Total) != r.total-r.got:
		return protocolError()
	case r.total > p.Length:
		return &violation{status: rdma.StatusBufferOverflow, receive: rdma.StatusBufferOverflow, err: errTooLong}
	}
	a, b := r.in.Payload(e)
	if !r.scatter(p.Pieces, r.got, a) || !r.scatter(p.Pieces, r.got+len(a), b) {
		return &violation{status: rdma.StatusRemoteError, receive: rdma.StatusAccessViolation, err: errRegionClosed}
	}
	r.got += int(e.Length)
	if e.Length == e.Total {
		recv.FinishLocked(&rdma.Result{Bytes: r.total, Solicited: e.Flags&ring.FlagSolicited != 0})
		r.results = true
	}
	return nil
}

// scatter puts p at an offset of pieces, which are large enough. It keeps a reference to
// the last region until release.
func (r *receiver) scatter(pieces []softrdma.Piece, at int, p []byte) bool {
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
		if !r.sink.hold(piece.Region) {
			return false
		}
		copy(piece.Buf[at:at+n], p[:n])
		at, p = 0, p[n:]
	}
	return true
}
