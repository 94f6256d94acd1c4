package server

import (
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// receive handles the message that arrived in a receive entry. An error ends the connection.
//
// Source: [OP-27] [OP-50d]
func (c *conn) receive(entry int32, r *rdma.Result) error {
	here := r.Bytes // received bytes; the other bytes are by reference
	if r.RemoteData != nil {
		here -= r.RemoteData.Len()
	}
	if here < wire.HeaderSize {
		return violation("a message of %d bytes, of which %d came", r.Bytes, here)
	}
	o, err := c.ops.take(c)
	if err != nil {
		return err
	}
	o.size = r.Bytes
	if c.sealing.on() {
		if err := c.sealing.open(&c.receives, o, entry, r); err != nil {
			return err
		}
	}
	if err = o.h.Decode(c.receives.header(entry)); err != nil {
		return violation("%w", err)
	}
	o.recv, o.arrived = entry, c.loop.arrival()
	if r.RemoteData != nil {
		if err := o.takeRemote(r.RemoteData, here); err != nil {
			return err
		}
	}
	if !c.auth.passed {
		return c.auth.handle(o)
	}
	if c.send.draining.Load() {
		return nil // the connection ends before an answer is due
	}
	if !c.replay.used {
		c.replay.use()
	}
	if c.auth.limiter != nil {
		if err := c.loop.throttle(o); err != nil {
			return err
		}
	}
	number, replayed, gap := c.replay.follow(&o.h)
	o.number = number
	if gap {
		c.engine.count.gaps.Add(1)
	}
	if err := c.observeLoad(&o.h); err != nil {
		return err
	}
	return c.dispatch(o, replayed)
}

// dispatch passes the message of an authenticated client to its handler. Package wire decides
// whether an invalid message ends the connection or is answered. replayed: the message is a write
// that the client sent before, on an earlier connection.
//
// Source: [LWIO §I/O Processing] [OP-27] [OP-63] [OP-92e] [OP-92h] [OP-106] [LWIO claim 15]
func (c *conn) dispatch(o *op, replayed bool) error {
	err := o.h.Check(o.size, c.auth.messages)
	if err != nil && wire.Terminates(err) {
		return violation("%w", err)
	}
	if c.sealing.on() && !o.h.Interrupt() {
		return violation("a sealed %v asks for a status block", o.h.Opcode)
	}
	io := c.auth.messages.Counts(o.h.Opcode)
	if io && !c.begin(o) {
		return violation("%d requests with %d credits", c.load.begun, c.credits.grant)
	}
	switch {
	case err != nil:
		c.reply(o, ntstatus.Of(err))
		return nil
	case io && !o.holds:
		if replayed {
			o.doubt = c.replay.doubtOf(o.number)
		}
		c.reply(o, o.refused(ntstatus.FileClosed))
		return nil
	}
	if o.h.Opcode != wire.OpRead {
		c.reads.post() // the READs arrived earlier
	}
	switch o.h.Opcode {
	case wire.OpRead, wire.OpVecRead:
		c.reads.read(o)
	case wire.OpWrite, wire.OpVecWrite:
		if !replayed || !c.answerReplayed(o) {
			c.write(o)
		}
	case wire.OpLock, wire.OpUnlock, wire.OpSync, wire.OpStat, wire.OpLookup:
		c.call(o)
	case wire.OpSetSize:
		if !replayed || !c.answerReplayed(o) {
			c.call(o)
		}
	case wire.OpRegister:
		return c.files.register(o)
	case wire.OpClose:
		if c.sealing.on() && o.h.Fid == wire.NoFid {
			return errClientLeft
		}
		c.files.close(o)
	case wire.OpCancel:
		c.files.cancel(o)
	case wire.OpInterrupt:
		c.interrupt(o)
	case wire.OpCredit:
		return c.credit(o)
	default: // wire.OpAuth
		return violation("a second AUTH")
	}
	return nil
}

// begin counts o as outstanding I/O and finds its file. It takes a reference on the file, unless the
// file is being closed. It returns false if the client has no credit for o; a receive was posted
// all the same.
//
// Source: [OP-53] [OP-55] [OP-58b] [OP-66]
func (c *conn) begin(o *op) bool {
	o.io = true
	c.load.begun = c.send.wakeups.begin()
	if f := c.files.get(o.h.Fid); f != nil {
		o.file = f
		o.holds = f.acquire()
	}
	return c.load.begun <= c.credits.grant
}

// reply answers with a status and no data. The receive loop calls it.
func (c *conn) reply(o *op, status ntstatus.Status) {
	o.status, o.info = status, 0
	o.data.drop()
	o.count()
	c.answer(o)
}

// answer ends the work of the receive loop on o. The next flush posts the answer.
func (c *conn) answer(o *op) { c.ready.push(o) }

// enoughToPost reports whether to post the collected answers now. left is the number of completions
// of the batch that are not handled yet.
func (c *conn) enoughToPost(left int) bool {
	n := c.ready.n + c.reads.waiting()
	return c.load.enough(n, c.ready.bytes, left, c.send.held.sharedMemory, c.loop.oversubscribed)
}

// flush posts all answers of the receive loop.
func (c *conn) flush() {
	c.reads.flush()
	if c.ready.empty() {
		return
	}
	for o := c.ready.ops.head; o != nil; o = o.next {
		c.tally.delay(o)
		o.complete()
	}
	c.ready.n, c.ready.bytes = 0, 0
	freed := c.ready.freed
	c.ready.freed = 0
	c.send.enqueue(&c.ready.ops, freed)
	c.tally.empty(c.engine, c) // last, because the client does not wait for it
}

// deliver sends the answer of o, or a part of its data, and the answers of the joined operations.
// The worker that performed them calls it. begun is the time at which the worker began.
func (c *conn) deliver(o *op, begun time.Time) {
	now := time.Now()
	joined := o.joined
	o.joined = opList{}
	at := now.Sub(c.engine.born)
	o.observe(at)
	o.complete()
	for x := joined.head; x != nil; x = x.next {
		x.observe(at)
		x.complete()
	}
	c.send.deliver(o, &joined, begun, now)
}

// complete records the result of o before its answer is sent, if o is an I/O request.
func (o *op) complete() {
	if !o.io || o.data.more {
		return
	}
	if isWrite(o.h.Opcode) && !o.known {
		o.c.replay.record(replayEntry{o.number, o.info, o.status})
	}
	o.c.credits.progress()
}

// settle handles the completion of an initiator request. bytes is the number of bytes that an RDMA
// write has transferred from a file.
func (c *conn) settle(id uint64, bytes int) error {
	entries := int(id >> idEntries & idCount)
	c.ready.freed += entries
	c.send.settle(entries)
	if n := int(id >> idAnswers & idCount); n > 0 {
		c.finish(n)
	}
	o := c.ops.all[uint32(id)]
	switch id & idKind {
	case idPart:
		c.reads.nextPart(o)
	case idDirect:
		c.reads.placed(o, bytes)
	case idAnswer:
		if o.hangUp {
			return errAuthFailed
		}
		c.announced()
	}
	return nil
}

// finish ends the n oldest operations with posted answers.
func (c *conn) finish(n int) {
	done := c.send.finish(n)
	c.fabric.buffers.giveAll(&done)
	for o := done.pop(); o != nil; o = done.pop() {
		c.ops.put(o)
	}
}

// answerBatch holds the operations that the receive loop has answered since the last flush.
type answerBatch struct {
	ops   opList
	n     int // operations
	bytes int // of data
	freed int // initiator entries that completions have freed
}

func (b *answerBatch) push(o *op) {
	b.bytes += int(o.info)
	b.n++
	b.ops.push(o)
}

// empty reports whether there is no answer to post and no freed entry. A freed entry can allow an
// earlier answer to be posted.
func (b *answerBatch) empty() bool { return b.ops.empty() && b.freed == 0 }

// final converts the error of file I/O to the status of the answer.
//
// Source: [OP-90]
func final(err error) ntstatus.Status {
	s := ntstatus.Of(err)
	if err != nil && !s.Failed() {
		return ntstatus.InternalError // for example PENDING, which is not final
	}
	return s
}
