package lwio

import (
	"context"

	"lwio/internal/wire"
	"lwio/rdma"
)

// batch is the reader's scratch memory.
type batch struct {
	results  [pollBatch]rdma.Result
	answers  [pollBatch]wire.StatusResponse
	receives [pollBatch]rdma.ReceiveRequest
	sges     [pollBatch]rdma.SGE
}

// read takes completions until the connection is down.
func (c *conn) read(ctx context.Context) {
	defer c.reading.Done()
	b := new(batch)
	for {
		n, err := c.cq.Poll(b.results[:])
		if err == nil && n == 0 {
			err = c.cq.Notify(ctx, rdma.NotifyAny)
			if err == nil {
				continue
			}
		}
		if err == nil {
			err = c.take(b, n)
		}
		if err != nil {
			c.fail(c.reason(err))
			return
		}
	}
}

// reason prefers what the connector says about the end of the connection to what
// the queue saw of it.
func (c *conn) reason(err error) error {
	select {
	case <-c.connector.Done():
		if e := c.connector.Err(); e != nil {
			return e
		}
	default:
	}
	return err
}

// take handles n results: it decodes the messages from a private copy, posts the
// receives again, and only then lets go the requests that were answered, whose
// credits may be used at once. [OP-66b]
func (c *conn) take(b *batch, n int) error {
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
	for _, a := range answers {
		if err := c.deliver(a); err != nil {
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
		if s.outstanding() && s.immediate() == v && s.kind == kindRead {
			return wire.StatusResponse{Cookie: s.cookie(), Information: s.want}, nil
		}
	}
	return wire.StatusResponse{}, protocolError("the server completed a read that nobody asked for")
}

// deliver gives an answer to the slot that it is for.
func (c *conn) deliver(a wire.StatusResponse) error {
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
		if w>>stateBits%generations != a.Cookie>>indexBits {
			return protocolError("the server answered a request twice")
		}
		st := slotState(w & stateMask)
		next := slotSettling
		switch st {
		case slotPending, slotAbandoned:
		case slotExpired:
			next = slotLate
		default:
			return protocolError("the server answered a request twice")
		}
		// Nobody but the reader ends an outstanding request, so that its fields
		// stand still until the state changes.
		if a.Status == 0 && (s.kind == kindRead || s.kind == kindWrite) && a.Information > s.want {
			return protocolError("the server reports %d bytes for a request of %d", a.Information, s.want)
		}
		kind := s.kind
		if s.word.CompareAndSwap(w, w&^stateMask|uint64(next)) {
			if kind == kindWrite {
				c.unanswered.Add(-1)
			}
			return c.settle(s, st, wire.IOStatusBlock{Information: a.Information, Status: a.Status})
		}
	}
}

// settle ends a request that was in the state st.
func (c *conn) settle(s *slot, st slotState, ios wire.IOStatusBlock) error {
	switch st {
	case slotPending:
		s.result = ios
		s.set(slotDone)
		s.wake()
	case slotAbandoned:
		if s.kind == kindGrow || s.kind == kindRetire {
			return c.credits.answered(c, s, ios)
		}
		c.release(s)
	}
	return nil
}
