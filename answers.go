package lwio

import (
	"runtime"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// scratch is the memory of whoever takes completions.
type scratch struct {
	results  [pollBatch]rdma.Result
	answers  [pollBatch]wire.StatusResponse
	receives [pollBatch]rdma.ReceiveRequest
	sges     [pollBatch]rdma.SGE
	landing  landing
}

// take handles n results: it decodes the messages from a private copy, posts the
// receives again, and only then lets go the requests that were answered, whose
// credits may be used at once. Called with progressMu held. [OP-66b]
func (c *conn) take(b *scratch, n int) error {
	answers := b.answers[:0]
	receives := b.receives[:0]
	for i := range b.results[:n] {
		r := &b.results[i]
		if r.Status != rdma.StatusSuccess {
			return &rdma.Error{Op: c.fabric + ": " + r.Op.String(), Status: r.Status}
		}
		if r.Op != rdma.OpReceive {
			continue
		}
		a, err := c.decode(r)
		if err != nil {
			return err
		}
		answers = append(answers, a)
		if c.credits.keeps(c, a.Cookie, r.ID) {
			continue
		}
		k := len(receives)
		b.sges[k] = c.receiveSGE(r.ID)
		receives = append(receives, rdma.ReceiveRequest{ID: r.ID, SGL: b.sges[k : k+1 : k+1]})
	}
	if len(receives) > 0 {
		if _, err := c.qp.PostReceive(receives); err != nil {
			return err
		}
	}
	l := &b.landing
	l.at = c.clock()
	defer l.handOver(c)
	for _, a := range answers {
		if err := c.deliver(a, l); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) receiveSGE(id uint64) rdma.SGE {
	return rdma.SGE{Region: c.recvMR, Offset: int(id) * wire.StatusResponseSize, Length: wire.StatusResponseSize}
}

// decode reads one completion: a status message, or the immediate data of a read
// that succeeded in full. [OP-85]
func (c *conn) decode(r *rdma.Result) (wire.StatusResponse, error) {
	if r.HasImmediate {
		return c.fromImmediate(r.Immediate)
	}
	if r.Bytes != wire.StatusResponseSize {
		return wire.StatusResponse{}, protocolError("the server sent %d bytes where a status has %d", r.Bytes, wire.StatusResponseSize)
	}
	var private [wire.StatusResponseSize]byte
	copy(private[:], c.recvMR.Bytes()[int(r.ID)*wire.StatusResponseSize:])
	return wire.DecodeStatusResponse(private[:])
}

func (c *conn) fromImmediate(v uint32) (wire.StatusResponse, error) {
	if i := int(v&indexMask) - 1; i >= 0 && i < len(c.slots) {
		s := &c.slots[i]
		w := s.word.Load()
		if slotState(w&stateMask).owed() && w&polledBit == 0 && s.immediate() == v && s.kind == kindRead {
			return wire.StatusResponse{Cookie: s.cookie(), Information: s.want}, nil
		}
	}
	return wire.StatusResponse{}, protocolError("the server completed a read that nobody asked for")
}

// deliver gives an answer to the slot that it is for.
func (c *conn) deliver(a wire.StatusResponse, l *landing) error {
	if a.Cookie == 0 {
		return c.credits.delta(c, a)
	}
	i := int(a.Cookie&indexMask) - 1
	if i < 0 || i >= len(c.slots) {
		return protocolError("the server answered a request that was never sent")
	}
	s := &c.slots[i]
	for {
		w := s.word.Load()
		for slotState(w&stateMask) == slotSettling && w&polledBit == 0 {
			runtime.Gosched() // somebody gives it up
			w = s.word.Load()
		}
		switch {
		case w>>stateBits%generations != a.Cookie>>indexBits || !slotState(w&stateMask).owed():
			return protocolError("the server answered a request twice")
		case w&polledBit != 0:
			return protocolError("the server sent a message for a request that asked for a status block")
		}
		if s.word.CompareAndSwap(w, w&^stateMask|uint64(slotSettling)) {
			return c.settle(s, slotState(w&stateMask), wire.IOStatusBlock{Information: a.Information, Status: a.Status}, l)
		}
	}
}

// look finishes the request of a slot if it is polled for and its status block is
// there. It reports whether it did. Two that look at the same time cannot both
// finish it; and a block that is not of this generation cannot be taken for one, as
// it is reset before the word says that the request is outstanding.
//
// The caller hands over what landed.
//
// Source: [LWIO §I/O Processing], [LWIO claim 20], [OP-89]
func (c *conn) look(s *slot, l *landing) bool {
	w := s.word.Load()
	if w&polledBit == 0 || !slotState(w&stateMask).owed() {
		return false
	}
	ios := wire.IOStatusBlockFromUint64(s.block.Load())
	for !ios.Pending() {
		if s.word.CompareAndSwap(w, w&^stateMask|uint64(slotSettling)) {
			if err := c.settle(s, slotState(w&stateMask), ios, l); err != nil {
				c.fail(err)
			}
			return true
		}
		// The call has left, or the watchdog was here, or somebody else has done it.
		next := s.word.Load()
		if next>>stateBits != w>>stateBits || !slotState(next&stateMask).owed() {
			return false
		}
		w = next
	}
	return false
}

// takeOwn is look for the call that the request of s is of, and nobody has given up: the
// answer goes to it without a detour by the slot, which stays slotSettling until the call
// releases it.
func (c *conn) takeOwn(s *slot) (ios wire.IOStatusBlock, came bool) {
	w := s.word.Load()
	if w&(polledBit|stateMask) != polledBit|uint64(slotPending) {
		return ios, false
	}
	ios = wire.IOStatusBlockFromUint64(s.block.Load())
	if ios.Pending() || !s.word.CompareAndSwap(w, w&^stateMask|uint64(slotSettling)) {
		return ios, false
	}
	var l landing
	if err := c.note(s, ios, &l); err != nil {
		c.fail(err)
		return ios, false
	}
	l.flushCounts(c)
	return ios, true
}

// deviceBusy answers an INTERRUPT while another one waits.
const deviceBusy = uint32(ntstatus.DeviceBusy)

// note counts the answer to the request of s, if that is I/O, and checks it.
func (c *conn) note(s *slot, ios wire.IOStatusBlock, l *landing) error {
	if !s.kind.io() {
		return nil
	}
	l.observe(c, s)
	if ios.Status == 0 && ios.Information > s.want {
		s.set(slotDead)
		return protocolError("the server reports %d bytes for a request of %d", ios.Information, s.want)
	}
	return nil
}

// settle ends a request that was in the state st and is settling now, so that its fields
// are the caller's.
func (c *conn) settle(s *slot, st slotState, ios wire.IOStatusBlock, l *landing) error {
	kind := s.kind
	if err := c.note(s, ios, l); err != nil {
		return err
	}
	if st == slotPending && s.op != nil {
		l.land(c, s, ios)
		return nil
	}
	l.flushCounts(c) // before anybody learns of it
	switch st {
	case slotPending:
		s.result = ios
		s.set(slotDone)
		c.wake(&s.waiter)
	case slotExpired:
		s.set(slotLate)
	default: // slotAbandoned
		if s.lent != nil {
			s.lent.doubted(-1)
		}
		switch kind {
		case kindGrow, kindRetire:
			return c.credits.answered(c, s, ios)
		case kindWakeUp:
			return c.wokenUp(s, ios.Status)
		case kindControl, kindRead, kindWrite:
			c.release(s)
		}
	}
	return nil
}
