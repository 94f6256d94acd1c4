package server

import (
	"sync"
	"time"

	"lwio/internal/wire"
	"lwio/rdma"
)

// pump is the scratch memory of whoever empties an outbox.
type pump struct {
	reqs     []rdma.Request
	sges     []rdma.SGE
	recvs    []rdma.ReceiveRequest
	recvSGEs []rdma.SGE
	silent   int // requests since the last that makes a result
	answers  int // among them, whose operations are over then
	used     int // requests and receives at most at a time, since the start
}

// pumpSize is how many requests are posted at a time.
const pumpSize = 64

var pumps = sync.Pool{New: func() any {
	return &pump{
		reqs: make([]rdma.Request, 0, pumpSize), sges: make([]rdma.SGE, 0, pumpSize),
		recvs: make([]rdma.ReceiveRequest, 0, pumpSize), recvSGEs: make([]rdma.SGE, 0, 2*pumpSize),
	}
}}

// put gives the scratch memory back, without what it refers to.
func (p *pump) put() {
	clear(p.reqs[:p.used])
	clear(p.sges[:p.used])
	clear(p.recvs[:p.used])
	clear(p.recvSGEs[:2*p.used])
	p.used = 0
	pumps.Put(p)
}

// empty forgets what was posted.
func (p *pump) empty() { p.reqs, p.sges = p.reqs[:0], p.sges[:0] }

// What a result of an initiator request means, in the top bits of its ID; below are
// how many answers went out with it and before it, whose operations are over, the
// number of slots that it frees, and the index of the operation that it is about.
const (
	idAnswer   uint64 = iota << 56 // the last answer, or a notice
	idStage                        // the stage is over, another follows
	idProgress                     // about no operation
	idDirect                       // the file's bytes are in the client's memory
	idKind     uint64 = 0xFF << 56
	idAnswers         = 44
	idSlots           = 32
	idCount           = 1<<12 - 1
)

func resultID(kind uint64, slots, answers int, index uint32) uint64 {
	return kind | uint64(answers)<<idAnswers | uint64(slots)<<idSlots | uint64(index)
}

// room reports whether one more request can be added.
func (p *pump) room(c *conn) bool { return len(p.reqs) < cap(p.reqs) && c.slots > 0 }

// next appends a request. They are large, and made where they stay.
func (p *pump) next() *rdma.Request {
	p.reqs = append(p.reqs, rdma.Request{})
	return &p.reqs[len(p.reqs)-1]
}

// add appends a request of length bytes of a region, which makes no result. The rest of it
// is the caller's to fill in.
func (p *pump) add(c *conn, op rdma.Op, region rdma.MemoryRegion, offset, length int) *rdma.Request {
	p.sges = append(p.sges, rdma.SGE{Region: region, Offset: offset, Length: length})
	r := p.next()
	r.Op, r.SGL, r.Flags = op, p.sges[len(p.sges)-1:], rdma.FlagSilentSuccess
	p.silent++
	c.slots--
	return r
}

// signal makes the last request have a result.
func (p *pump) signal(kind uint64, index uint32) {
	r := &p.reqs[len(p.reqs)-1]
	r.Flags &^= rdma.FlagSilentSuccess
	r.ID = resultID(kind, p.silent, p.answers, index)
	p.silent, p.answers = 0, 0
}

// receive appends the receive of a slot: header and data go to two places.
func (p *pump) receive(c *conn, slot int32) {
	y := &c.f.layout
	n := len(p.recvSGEs)
	p.recvSGEs = append(p.recvSGEs,
		rdma.SGE{Region: c.region, Offset: int(slot) * wire.HeaderSize, Length: wire.HeaderSize},
		rdma.SGE{Region: c.region, Offset: y.data + int(slot)*y.dataSize, Length: y.dataSize})
	p.recvs = append(p.recvs, rdma.ReceiveRequest{ID: uint64(slot), SGL: p.recvSGEs[n:]})
}

// postReceives posts the receives collected.
func (p *pump) postReceives(c *conn) error {
	if len(p.recvs) == 0 {
		return nil
	}
	p.used = max(p.used, len(p.recvs))
	_, err := c.qp.PostReceive(p.recvs)
	p.recvs, p.recvSGEs = p.recvs[:0], p.recvSGEs[:0]
	return err
}

// post posts all that was collected: receives first, so that no answer lets the
// client send before there is a place for it.
//
// Source: [OP-66b]
func (p *pump) post(c *conn) error {
	if err := p.postReceives(c); err != nil {
		return err
	}
	p.used = max(p.used, len(p.reqs))
	c.owing.Add(int64(len(p.reqs)))
	_, err := c.qp.Post(p.reqs)
	return err
}

// deliver puts o's answer, or a stage of its data, into the outbox and sees to
// it that it is posted. For workers, that began with it then; the loop collects answers
// first.
func (c *conn) deliver(o *op, begun time.Time) {
	now := time.Now()
	rest := o.rest
	o.rest = opList{}
	at := now.Sub(c.e.born)
	o.observe(at)
	c.mu.Lock()
	holds := !o.more && c.armed == nil // else there is more to post
	c.enqueueLocked(o)
	n, wakes := 1, o.h.Interrupt()
	for x := rest.pop(); x != nil; x = rest.pop() {
		x.observe(at)
		c.enqueueLocked(x)
		n, wakes = n+1, wakes && x.h.Interrupt()
	}
	if holds && c.holdsLocked(n, wakes, begun, now) {
		c.mu.Unlock()
		return
	}
	c.postOutbox()
}

// observe counts for how long o was at work until now, on the engine's clock.
func (o *op) observe(now time.Duration) {
	if to, ok := o.stopwatch(); ok {
		to.observe(now-o.arrived, 1)
	}
}

// flush delivers what the loop has answered since the last time.
func (c *conn) flush() {
	if len(c.directs) == 1 && c.ready.empty() {
		c.answerDirect(c.directs[0])
	}
	c.postDirects()
	if c.ready.empty() && c.freed == 0 {
		return
	}
	c.mu.Lock()
	c.slots += c.freed
	for o := c.ready.pop(); o != nil; o = c.ready.pop() {
		c.tally.delay(o)
		c.enqueueLocked(o)
	}
	c.freed, c.readySum, c.readyNum = 0, 0, 0
	c.postOutbox()
	c.tally.empty(c.e, c) // the client need not wait for that
}

// enqueueLocked appends o to the outbox and behind it what waited for it: an
// answer to the CLOSE of its file, an answer to the INTERRUPT. That, the count
// of what is outstanding and the INTERRUPT handler share one critical section,
// so no wake-up is lost.
//
// Source: [OP-93d] [OP-93f] [OP-94d]
func (c *conn) enqueueLocked(o *op) {
	c.outbox.push(o)
	if !o.more {
		c.answeredLocked(o)
	}
}

// answeredLocked is what enqueueLocked does besides for an answer.
func (c *conn) answeredLocked(o *op) {
	if f := o.file; f != nil {
		f.inFlight--
		if f.inFlight == 0 && f.closer != nil {
			c.outbox.push(f.closer)
			f.closer = nil
		}
	}
	if !o.io {
		return
	}
	c.rememberLocked(o)
	if c.credits.delta != 0 {
		c.credits.began = time.Now() // it gets on
	}
	c.pending--
	c.completed = true
	if c.armed != nil {
		c.wakeLocked(c.armed)
		c.armed = nil
	}
}

// postOutbox posts what is in the outbox, unless another goroutine is at it, which
// then does. It is called with mu held and returns without.
func (c *conn) postOutbox() {
	if c.pumping || c.outbox.empty() {
		c.mu.Unlock()
		return
	}
	c.pumping, c.hold.n = true, 0
	p := pumps.Get().(*pump)
	for !c.dead && c.fill(p) {
		c.mu.Unlock()
		err := p.post(c)
		p.empty()
		if err != nil {
			c.cut(err)
		}
		c.mu.Lock()
		c.dead = c.dead || err != nil
	}
	c.pumping = false
	c.mu.Unlock()
	p.put()
}

// fill takes as much out of the outbox as can be posted, and reports whether
// that is anything. The last request of all has a result.
func (c *conn) fill(p *pump) bool {
	for o := c.outbox.head; o != nil && p.room(c); o = c.outbox.head {
		if !c.fillData(p, o) {
			break
		}
		if o.more {
			p.signal(idStage, o.index)
			c.outbox.remove(o)
			continue
		}
		if !o.completes && !p.room(c) {
			break
		}
		c.outbox.remove(o)
		c.fillAnswer(p, o)
	}
	if p.silent > 0 {
		p.signal(idProgress, 0)
	}
	return len(p.reqs) > 0
}

// fillData adds the RDMA writes of o's stage and reports whether that are all. The last one
// may be the answer too.
//
// Source: [LWIO §Read] [OP-85] [OP-87]
func (c *conn) fillData(p *pump, o *op) bool {
	for o.sent < o.staged {
		if !p.room(c) {
			return false
		}
		to, n := o.target()
		region, offset := c.source(o)
		r := p.add(c, rdma.OpWrite, region, offset+o.sent, n)
		r.Remote = to
		if o.sent += n; o.sent == o.staged && c.byImmediate(o) {
			o.completes = true
			c.e.count.immediate.Add(1)
			r.Flags |= rdma.FlagImmediate
			r.Immediate = o.h.ImmediateCookie
		}
	}
	return true
}

// source is where o's data lies.
func (c *conn) source(o *op) (rdma.MemoryRegion, int) {
	if o.h.Opcode == wire.OpAuth {
		return c.region, c.f.layout.auth
	}
	return c.f.arena.region, int(o.block) * blockUnit
}

// fillAnswer adds the answer of o, as a message or as a status block, unless that went
// with the data.
//
// Source: [LWIO §I/O Processing] [OP-95] [OP-105] [LWIO claim 18] [LWIO claim 19] [LWIO claim 20]
func (c *conn) fillAnswer(p *pump, o *op) {
	if o.loan != nil {
		o.loan.Release()
		o.loan = nil
	}
	c.unholdLocked(o)
	c.fillLast(p, o)
	if o.hangUp || o == c.notice {
		p.signal(idAnswer, o.index)
		return
	}
	p.answers++
	c.posted.push(o)
}

// unholdLocked gives back what o holds of its file.
func (c *conn) unholdLocked(o *op) {
	if o.holds {
		o.file.unholdLocked(c)
		o.holds = false
	}
}

// fillLast adds what ends the work for o: its receive, to be posted again, and the answer.
func (c *conn) fillLast(p *pump, o *op) {
	if o.recv != none {
		p.receive(c, o.recv)
		o.recv = none
	}
	c.fillStatus(p, o)
}

// fillStatus adds the answer of o.
func (c *conn) fillStatus(p *pump, o *op) {
	at := c.f.layout.answers + int(o.index)*wire.StatusResponseSize
	slot := c.buf[at : at : at+wire.StatusResponseSize]
	switch {
	case o.completes: // it went with the data
	case o.h.Interrupt():
		wire.StatusResponse{Cookie: o.h.Cookie, Information: o.info, Status: uint32(o.status)}.AppendTo(slot)
		p.add(c, rdma.OpSend, c.region, at, wire.StatusResponseSize).Flags |= rdma.FlagSolicitEvent
	default:
		wire.IOStatusBlock{Information: o.info, Status: uint32(o.status)}.AppendTo(slot)
		r := p.add(c, rdma.OpWrite, c.region, at, wire.IOStatusBlockSize)
		r.Remote = rdma.RemoteAddr{Addr: o.h.IosVa, Token: rdma.RemoteToken(o.h.IosMh)}
	}
}
