package rdmaconn

import (
	"runtime"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// scratch is the memory of the goroutine that takes completions.
type scratch struct {
	results  [pollBatch]rdma.Result
	answers  [pollBatch]wire.StatusResponse
	receives [pollBatch]rdma.ReceiveRequest
	sges     [pollBatch]rdma.SGE
	delivery Delivery
}

// take handles n results: it decodes the messages from a private copy, posts the
// receives again, and only then lets go the requests that were answered, whose
// credits may be used at once. Precondition: progress.mu is held. [OP-66b]
func (c *Conn) take(b *scratch, n int) error {
	answers := b.answers[:0]
	receives := b.receives[:0]
	for i := range b.results[:n] {
		r := &b.results[i]
		if r.Status != rdma.StatusSuccess {
			return &rdma.Error{Op: c.Fabric + ": " + r.Op.String(), Status: r.Status}
		}
		if r.Op != rdma.OpReceive {
			continue
		}
		a, err := c.decode(r)
		if err != nil {
			return err
		}
		answers = append(answers, a)
		if c.Credits.keeps(c, a.Cookie, r.ID) {
			continue
		}
		k := len(receives)
		b.sges[k] = c.Memory.receiveSGE(r.ID)
		receives = append(receives, rdma.ReceiveRequest{ID: r.ID, SGL: b.sges[k : k+1 : k+1]})
	}
	if len(receives) > 0 {
		if _, err := c.qp.PostReceive(receives); err != nil {
			return err
		}
	}
	l := &b.delivery
	l.at = c.Clock()
	defer l.HandOver(c)
	for _, a := range answers {
		if err := c.deliver(a, l); err != nil {
			return err
		}
	}
	return nil
}

func (m *messageMemory) receiveSGE(id uint64) rdma.SGE {
	return rdma.SGE{Region: m.RecvMR, Offset: int(id) * wire.StatusResponseSize, Length: wire.StatusResponseSize}
}

// decode reads one completion: a status message, or the immediate data of a read
// that succeeded in full. [OP-85]
func (c *Conn) decode(r *rdma.Result) (wire.StatusResponse, error) {
	if r.HasImmediate {
		return c.fromImmediate(r.Immediate)
	}
	if r.Bytes != wire.StatusResponseSize {
		return wire.StatusResponse{}, base.ProtocolError("the server sent %d bytes where a status has %d", r.Bytes, wire.StatusResponseSize)
	}
	var private [wire.StatusResponseSize]byte
	copy(private[:], c.Memory.RecvMR.Bytes()[int(r.ID)*wire.StatusResponseSize:])
	return wire.DecodeStatusResponse(private[:])
}

func (c *Conn) fromImmediate(v uint32) (wire.StatusResponse, error) {
	if i := int(v&IndexMask) - 1; i >= 0 && i < len(c.Table.Entries) {
		s := &c.Table.Entries[i]
		w := s.Word.Load()
		if RequestState(w&StateMask).isOutstanding() && w&polledBit == 0 && s.immediate() == v && s.Kind == KindRead {
			return wire.StatusResponse{Cookie: s.cookie(), Information: s.Want}, nil
		}
	}
	return wire.StatusResponse{}, base.ProtocolError("the server completed a read that was never sent")
}

// deliver gives an answer to the entry that it is for.
func (c *Conn) deliver(a wire.StatusResponse, l *Delivery) error {
	if a.Cookie == 0 {
		return c.Credits.delta(c, a)
	}
	i := int(a.Cookie&IndexMask) - 1
	if i < 0 || i >= len(c.Table.Entries) {
		return base.ProtocolError("the server answered a request that was never sent")
	}
	s := &c.Table.Entries[i]
	for {
		w := s.Word.Load()
		for RequestState(w&StateMask) == RequestSettling && w&polledBit == 0 {
			runtime.Gosched() // a goroutine gives it up
			w = s.Word.Load()
		}
		switch {
		case w>>stateBits%generations != a.Cookie>>IndexBits || !RequestState(w&StateMask).isOutstanding():
			return base.ProtocolError("the server answered a request twice")
		case w&polledBit != 0:
			return base.ProtocolError("the server sent a message for a request that asked for a status block")
		}
		if s.Word.CompareAndSwap(w, w&^StateMask|uint64(RequestSettling)) {
			return c.Settle(s, RequestState(w&StateMask), wire.IOStatusBlock{Information: a.Information, Status: a.Status}, l)
		}
	}
}

// look finishes the request of an entry if it is polled for and its status block is
// there. It reports whether it did. Two that look at the same time cannot both
// finish it; and a block that is not of this generation cannot be taken for one, as
// it is reset before the word says that the request is outstanding.
//
// The caller hands the delivery over.
//
// Source: [LWIO §I/O Processing], [LWIO claim 20], [OP-89]
func (c *Conn) look(s *Request, l *Delivery) bool {
	w := s.Word.Load()
	if w&polledBit == 0 || !RequestState(w&StateMask).isOutstanding() {
		return false
	}
	ios := wire.IOStatusBlockFromUint64(s.Block.Load())
	for !ios.Pending() {
		if s.Word.CompareAndSwap(w, w&^StateMask|uint64(RequestSettling)) {
			if err := c.Settle(s, RequestState(w&StateMask), ios, l); err != nil {
				c.Fail(err)
			}
			return true
		}
		// The call has left, or the watchdog was here, or another goroutine has done it.
		next := s.Word.Load()
		if next>>stateBits != w>>stateBits || !RequestState(next&StateMask).isOutstanding() {
			return false
		}
		w = next
	}
	return false
}

// takeOwn is look for the call that made the request of s with generation life: the answer
// goes to it without a detour by arrivals. The entry stays settling until the call releases
// it. A later generation belongs to another call.
func (c *Conn) takeOwn(s *Request, life uint64) (ios wire.IOStatusBlock, came bool) {
	w := s.Word.Load()
	if w>>stateBits != life || w&(polledBit|StateMask) != polledBit|uint64(RequestPending) {
		return ios, false
	}
	ios = wire.IOStatusBlockFromUint64(s.Block.Load())
	if ios.Pending() || !s.Word.CompareAndSwap(w, w&^StateMask|uint64(RequestSettling)) {
		return ios, false
	}
	var l Delivery
	if err := c.note(s, ios, &l); err != nil {
		c.Fail(err)
		return ios, false
	}
	l.flushCounts(c)
	return ios, true
}

// DeviceBusy answers an INTERRUPT while another one waits.
const DeviceBusy = uint32(ntstatus.DeviceBusy)

// note counts the answer to the request of s, if that is I/O, and checks it.
func (c *Conn) note(s *Request, ios wire.IOStatusBlock, l *Delivery) error {
	if !s.Kind.io() {
		return nil
	}
	l.observe(c, s)
	if ios.Status == 0 && ios.Information > s.Want {
		s.Set(RequestDead)
		return base.ProtocolError("the server reports %d bytes for a request of %d", ios.Information, s.Want)
	}
	return nil
}

// Settle ends a request that was in the state st and is settling now, so that its fields
// are the caller's.
func (c *Conn) Settle(s *Request, st RequestState, ios wire.IOStatusBlock, l *Delivery) error {
	kind := s.Kind
	if err := c.note(s, ios, l); err != nil {
		return err
	}
	if st == RequestPending && s.Op != nil {
		l.place(c, s, ios)
		return nil
	}
	l.flushCounts(c) // before any goroutine learns of it
	switch st {
	case RequestPending:
		s.result = ios
		s.Set(RequestDone)
		c.wake(&s.Waiter)
	case requestExpired:
		s.Set(requestLate)
	default: // RequestAbandoned
		if s.Buffer != nil {
			s.Buffer.Doubted(-1)
		}
		switch kind {
		case kindGrow, kindRetire:
			return c.Credits.answered(c, s, ios)
		case kindWakeUp:
			return c.wokenUp(s, ios.Status)
		case kindControl, KindRead, KindWrite:
			c.Release(s)
		}
	}
	return nil
}
