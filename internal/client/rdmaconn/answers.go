package rdmaconn

import (
	"math/bits"
	"runtime"

	"lwio/internal/client/base"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
)

// receiver takes the answers of the server, which are status messages or status blocks, and
// settles the requests.
type receiver struct {
	provider string
	qp       rdma.QueuePair
	table    *requestTable
	receives *receiveQueue
	credits  *credits
	status   *statusBlocks
	send     *sendQueue
	sealed   *sealing
	life     *lifecycle
	count    *traffic
	counts   *base.Counts

	// Guarded by progress.mu.
	scratch scratch
	woken   bool // an INTERRUPT was answered
}

// scratch is the memory of the goroutine that takes completions.
type scratch struct {
	results  [pollBatch]rdma.Result
	answers  [pollBatch]wire.StatusResponse
	receives [pollBatch]rdma.ReceiveRequest
	sges     [pollBatch]rdma.SGE
	delivery delivery
}

// pollBatch is how many completions are taken at once.
const pollBatch = 64

// take handles n completions: it decodes the messages from a private copy, posts the receives
// again, and only then frees the requests that were answered. Their credits may be used at once.
// Precondition: progress.mu is held. [OP-66b]
func (r *receiver) take(n int) error {
	b := &r.scratch
	answers := b.answers[:0]
	receives := b.receives[:0]
	for i := range b.results[:n] {
		c := &b.results[i]
		if c.Status != rdma.StatusSuccess {
			return &rdma.Error{Op: r.provider + ": " + c.Op.String(), Status: c.Status}
		}
		if c.Op != rdma.OpReceive {
			continue
		}
		a, err := r.decode(c, len(answers))
		if err != nil {
			return err
		}
		answers = append(answers, a)
		if r.credits.retires(a.Cookie) {
			r.receives.retire(c.ID)
			continue
		}
		k := len(receives)
		b.sges[k] = r.receives.sge(c.ID)
		receives = append(receives, rdma.ReceiveRequest{ID: c.ID, SGL: b.sges[k : k+1 : k+1]})
	}
	if len(receives) > 0 {
		if _, err := r.qp.PostReceive(receives); err != nil {
			return err
		}
	}
	d := &b.delivery
	d.r, d.at = r, r.count.now()
	defer d.handOver()
	for i, a := range answers {
		if err := r.deliver(a, r.descriptor(i), d); err != nil {
			return err
		}
	}
	return nil
}

// descriptor returns the descriptor of the data of answer i of a batch; nil on a plain connection.
func (r *receiver) descriptor(i int) *seal.Descriptor {
	if r.sealed.in == nil {
		return nil
	}
	return &r.sealed.descriptors[i]
}

// decodeSealed reads a message of a sealed connection, answer i of a batch. The first, which answers
// AUTH, is plain.
//
// Source: [OP-114b]
func (r *receiver) decodeSealed(c *rdma.Result, i int) (wire.StatusResponse, error) {
	d := r.descriptor(i)
	*d = seal.Descriptor{}
	at, private := r.receives.sge(c.ID), &r.sealed.private
	b := private[:copy(private[:], at.Region.Bytes()[at.Offset:][:c.Bytes])]
	if !r.sealed.answered {
		r.sealed.answered = true
		return wire.DecodeStatusResponse(b)
	}
	if c.HasImmediate || len(b) != sealedStatus {
		return wire.StatusResponse{}, base.ProtocolError("the server sent %d bytes where a sealed status has %d", c.Bytes, sealedStatus)
	}
	if err := r.sealed.open(b, d); err != nil {
		return wire.StatusResponse{}, err
	}
	return wire.DecodeStatusResponse(b[:wire.StatusResponseSize])
}

// decode reads one completion, answer i of a batch: a status message, or the immediate data of a read
// that succeeded in full. [OP-85]
func (r *receiver) decode(c *rdma.Result, i int) (wire.StatusResponse, error) {
	if r.sealed.in != nil {
		return r.decodeSealed(c, i)
	}
	if c.HasImmediate {
		return r.fromImmediate(c.Immediate)
	}
	if c.Bytes != wire.StatusResponseSize {
		return wire.StatusResponse{}, base.ProtocolError("the server sent %d bytes where a status has %d", c.Bytes, wire.StatusResponseSize)
	}
	var private [wire.StatusResponseSize]byte
	at := r.receives.sge(c.ID)
	copy(private[:], at.Region.Bytes()[at.Offset:])
	return wire.DecodeStatusResponse(private[:])
}

func (r *receiver) fromImmediate(v uint32) (wire.StatusResponse, error) {
	if s := r.table.ofCookie(uint64(v)); s != nil {
		w := s.load()
		outstanding := w.isOutstanding() || w.state() == requestSettling // deliver waits for the second
		if outstanding && !w.polled() && s.immediate() == v && s.kind == kindRead {
			return wire.StatusResponse{Cookie: s.cookie(), Information: s.want}, nil
		}
	}
	return wire.StatusResponse{}, base.ProtocolError("the server completed a read that was never sent")
}

// deliver gives a status message to the request that it answers. sealed describes the data that goes
// with it on a sealed connection, and is nil on others.
func (r *receiver) deliver(a wire.StatusResponse, sealed *seal.Descriptor, d *delivery) error {
	if a.Cookie == 0 {
		return r.credits.delta(a)
	}
	s := r.table.ofCookie(a.Cookie)
	if s == nil {
		return base.ProtocolError("the server answered a request that was never sent")
	}
	for {
		w := s.load()
		for w.state() == requestSettling && !r.byBlock(w) {
			runtime.Gosched() // another goroutine gives it up
			w = s.load()
		}
		switch {
		case w.generation()%generations != a.Cookie>>indexBits || !w.isOutstanding():
			return base.ProtocolError("the server answered a request twice")
		case r.byBlock(w):
			return base.ProtocolError("the server sent a message for a request that asked for a status block")
		}
		if s.settle(w) {
			if sealed != nil {
				if err := s.accept(sealed, a); err != nil {
					s.kill()
					return err
				}
			}
			return r.settled(s, w.state(), wire.IOStatusBlock{Information: a.Information, Status: a.Status}, d)
		}
	}
}

// byBlock reports whether the answer to a request is a status block.
func (r *receiver) byBlock(w requestWord) bool { return w.polled() && !r.status.sealed }

// look settles a polled request if its status block is there, and reports whether it did. Of two
// goroutines that look at the same time, one settles the request. A status block of an earlier
// generation is never taken for this one's, as it is reset before the request is outstanding. The
// caller hands the delivery over.
//
// Source: [LWIO §I/O Processing], [LWIO claim 20], [OP-89]
func (r *receiver) look(s *Request, d *delivery) bool {
	w := s.load()
	if !r.byBlock(w) || !w.isOutstanding() {
		return false
	}
	ios := wire.IOStatusBlockFromUint64(s.block.Load())
	for !ios.Pending() {
		if s.settle(w) {
			if err := r.settled(s, w.state(), ios, d); err != nil {
				r.life.Fail(err)
			}
			return true
		}
		// The operation has left, or another goroutine has settled the request.
		next := s.load()
		if next.generation() != w.generation() || !next.isOutstanding() {
			return false
		}
		w = next
	}
	return false
}

// scan settles the polled requests with answers, and returns their number. A look that finds no
// answer does not make a delivery: a poller looks millions of times a second.
func (r *receiver) scan() int {
	if r.status.sealed {
		return 0
	}
	for i := range r.status.polled {
		for w := r.status.polled[i].Load(); w != 0; w &= w - 1 {
			s := &r.table.entries[64*i+bits.TrailingZeros64(w)]
			if !wire.IOStatusBlockFromUint64(s.block.Load()).Pending() {
				return r.settleAnswered()
			}
		}
	}
	return 0
}

// settleAnswered settles the polled requests with answers, and returns their number.
func (r *receiver) settleAnswered() int {
	n, d := 0, delivery{r: r}
	r.status.polled.each(func(i int) {
		if r.look(&r.table.entries[i], &d) {
			n++
		}
	})
	d.handOver()
	return n
}

// takeOwn is look for the call that posted t: the answer goes to the call without a detour by
// Arrivals, and the request stays settling until the call releases it. A later generation belongs
// to another call.
func (r *receiver) takeOwn(t *Ticket) (ios wire.IOStatusBlock, came bool) {
	s := t.request
	w := s.load()
	if w.generation() != t.generation || !r.byBlock(w) || w.state() != requestPending {
		return ios, false
	}
	ios = wire.IOStatusBlockFromUint64(s.block.Load())
	if ios.Pending() || !s.settle(w) {
		return ios, false
	}
	d := delivery{r: r}
	if err := r.note(s, ios, &d); err != nil {
		r.life.Fail(err)
		return ios, false
	}
	d.flushCounts()
	return ios, true
}

// note counts the answer to the request of s, if that is I/O, and checks it.
func (r *receiver) note(s *Request, ios wire.IOStatusBlock, d *delivery) error {
	if !s.kind.io() {
		return nil
	}
	d.observe(s)
	if ios.Status == 0 && ios.Information > s.want {
		s.kill()
		return base.ProtocolError("the server reports %d bytes for a request of %d", ios.Information, s.want)
	}
	return nil
}

// settled ends a settling request, which was pending or abandoned, with its answer.
func (r *receiver) settled(s *Request, was requestState, ios wire.IOStatusBlock, d *delivery) error {
	if err := r.note(s, ios, d); err != nil {
		return err
	}
	if was == requestPending {
		d.place(s, ios)
		return nil
	}
	d.flushCounts() // before another goroutine sees the request free
	if s.buffer != nil {
		s.buffer.abandoned(-1)
	}
	switch s.kind {
	case kindGrow, kindRetire:
		return r.credits.answered(s, ios)
	case kindWakeUp:
		return r.wokenUp(s, ios.Status)
	case kindSync:
		s.sendLate(StatusError(ios.Status))
		r.credits.release(s)
	case kindControl, kindRead, kindWrite, kindStat, kindLookup, kindChange:
		r.credits.release(s)
	}
	return nil
}
