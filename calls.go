package lwio

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// acquire takes a credit. With block false it returns nil if there is none; else it
// waits no longer than ctx allows or, if ctx has no deadline, than Config.Timeout.
func (c *conn) acquire(ctx context.Context, block bool) (*slot, error) {
	_, own := ctx.Deadline()
	if s := c.free.take(); s != nil {
		s.own = own
		return s, nil
	}
	if !block {
		return nil, nil
	}
	c.baton.block()
	defer c.baton.unblock()
	c.armForOthers()
	var late <-chan time.Time
	if !own {
		t := c.timer()
		defer c.timers.Put(t)
		defer t.Stop()
		late = t.C
	}
	place := c.free.join()
	defer func() {
		c.free.leave(place)
		c.unused(someSlots{})
	}()
	select {
	case s := <-place:
		s.own = own
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.down:
		return nil, c.err
	case <-late:
		return nil, errNoCredit
	}
}

// timer starts a timer for Config.Timeout, one that was used before if there is one.
func (c *conn) timer() *time.Timer {
	t, ok := c.timers.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(c.cfg.timeout)
	}
	t.Reset(c.cfg.timeout)
	return t
}

// release gives the credit back.
func (c *conn) release(s *slot) {
	s.drop()
	s.renew()
	if c.credits.work.Load() && c.credits.use(c, s) {
		return
	}
	c.free.put(s)
	c.unused(someSlots{})
}

// unused gives back credits that were taken and not used, if any, and sees to the CREDIT
// and CANCEL messages that may have found none meanwhile.
func (c *conn) unused(some someSlots) {
	c.free.putBack(some)
	if c.credits.work.Load() {
		c.credits.pump(c)
	}
}

// payload is what follows the header: bytes to copy, or a part of a region to
// gather from.
type payload struct {
	copied []byte
	region rdma.MemoryRegion
	offset int
	length int
	gather []rdma.SGE // parts of regions, which stand in the slot already
}

// post sends the message of slot s. The header's common fields are filled in.
// After an error nobody has seen the message, and the slot is not the caller's any
// more.
//
// Source: [LWIO §I/O Processing], [OP-21], [OP-23], [OP-24], [LWIO claim 22]
func (c *conn) post(s *slot, h *wire.Header, data payload) error {
	return c.postAs(s, h, data, slotPending)
}

// postDetached sends a message for whose answer nobody waits.
func (c *conn) postDetached(s *slot, h *wire.Header) error {
	return c.postAs(s, h, payload{}, slotAbandoned)
}

func (c *conn) postAs(s *slot, h *wire.Header, data payload, as slotState) error {
	if h.Opcode != wire.OpAuth {
		h.SetPending(int(c.wanting.Load()))
	}
	c.sendMu.Lock()
	if c.isDown() {
		c.sendMu.Unlock()
		s.set(slotDead)
		return c.err
	}
	c.queueLocked(s, h, &data, as, c.clock())
	c.startPosting()
	return nil
}

// queueLocked makes the message of slot s, which begins at that time, and queues it.
// The caller holds sendMu, and calls startPosting next.
//
// Source: [OP-21], [OP-23], [OP-24], [OP-89], [OP-112]
func (c *conn) queueLocked(s *slot, h *wire.Header, data *payload, as slotState, at int64) {
	polled := c.polls(s)
	if polled {
		at := c.statusAddr(s)
		h.CompleteByWrite(at.Addr, uint32(at.Token))
		s.block.Store(wire.PendingBlock().Uint64())
	} else {
		h.CompleteBySend(s.cookie(), s.immediate()&c.immediates)
	}
	switch {
	case h.Opcode == wire.OpAuth:
	case s.again:
		h.Sequence, s.again = uint16(s.number), false
	default:
		h.Sequence, s.number = uint16(c.seq), c.seq
		c.seq++
	}
	msg := append(h.AppendTo(s.send[:0]), data.copied...)
	s.sges[0] = rdma.SGE{Region: c.sendMR, Offset: s.sendAt, Length: len(msg)}
	sgl := s.sges[:1]
	if data.region != nil {
		s.sges[1] = rdma.SGE{Region: data.region, Offset: data.offset, Length: data.length}
		sgl = s.sges[:2]
	}
	if data.gather != nil {
		sgl = s.sges[:1+len(data.gather)]
	}
	req := c.sendLocked()
	req.ID, req.SGL, req.Flags = uint64(s.index), sgl, 0
	if c.sends++; c.sends%signalEvery != 0 {
		req.Flags = rdma.FlagSilentSuccess
	}
	if s.lent != nil && s.kind == kindWrite {
		req.Flags |= rdma.FlagByReference // until the answer is there, whoever waits for it
	}
	s.fid, s.round = 0, c.round
	if s.kind.io() {
		c.fresh++
		s.began, s.fid = at, h.Fid
	}
	if s.kind == kindWrite {
		c.unanswered.Add(1)
	}
	tick := c.ticks.Load()
	if s.own {
		tick = untimed
	}
	if s.tick.Load() != tick {
		s.tick.Store(tick)
	}
	s.start(as, polled)
	if polled && !c.looked.add(s.index) {
		c.polled.addSome(c.looked)
		c.looked = someSlots{}
		c.looked.add(s.index)
	}
}

// sendLocked adds a send to the queue, which may be one that was there before: of its ID,
// SGL and Flags, which are all that the sends of a connection differ in.
func (c *conn) sendLocked() *rdma.Request {
	n := len(c.queue)
	if n < cap(c.queue) {
		c.queue = c.queue[:n+1]
	} else {
		c.queue = append(c.queue, rdma.Request{})
	}
	c.queue[n].Op = rdma.OpSend
	return &c.queue[n]
}

// startPosting sees to it that what was queued is posted, and unlocks sendMu, which
// the caller holds.
func (c *conn) startPosting() {
	c.countLocked()
	if c.posting {
		c.sendMu.Unlock()
		return // whoever posts takes it along
	}
	c.posting = true
	c.flushLocked()
}

// countLocked counts the I/O requests that were queued, and has those that are polled for
// looked for.
func (c *conn) countLocked() {
	if c.fresh > 0 {
		c.sent.Add(c.fresh)
		c.polled.addSome(c.looked)
		c.fresh, c.looked = 0, someSlots{}
	}
}

// postTogether is startPosting for a blocking call. Calls whose answers came together are
// about to send their next requests together: the first of them that finds the others on the
// way lets them queue theirs, and posts all.
func (c *conn) postTogether() {
	others := c.returning.Load()
	if others > 0 {
		others = c.returning.Add(-1)
	}
	if others > 0 && !c.posting {
		c.posting = true
		c.returning.Store(0)
		c.countLocked()
		c.sendMu.Unlock()
		runtime.Gosched()
		c.sendMu.Lock()
		c.flushLocked()
		return
	}
	c.startPosting()
}

// flushLocked posts what is queued until nothing is, and unlocks sendMu, which the
// caller holds with posting set. A failure ends the connection.
func (c *conn) flushLocked() {
	for range postRounds {
		if len(c.queue) == 0 {
			c.posting = false
			c.sendMu.Unlock()
			return
		}
		c.queue, c.batch = c.batch[:0], c.queue
		c.round++
		c.sendMu.Unlock()
		if _, err := c.qp.Post(c.batch); err != nil {
			c.fail(c.reason(err))
		}
		c.sendMu.Lock()
		c.over = c.round
	}
	c.sendMu.Unlock()
	// Others keep the queue full; a caller is not to be held up by that for good.
	// The teardown waits for the goroutine by taking life.
	go func() {
		if !c.life.TryRLock() {
			return // the connection is down
		}
		defer c.life.RUnlock()
		c.sendMu.Lock()
		c.flushLocked()
	}()
}

// What takes longer than Config.Timeout: a request, or the wait for a credit.
var (
	errTimeout  = fmt.Errorf("no answer from the server: %w", os.ErrDeadlineExceeded)
	errNoCredit = fmt.Errorf("no answer to earlier requests from the server: %w", os.ErrDeadlineExceeded)
)

// busyPolls is how often a call looks for its own answer, for a few microseconds, before
// it begins to see to the whole connection.
const busyPolls = 1000

// busyPoll looks for the answer of s, if nothing else is in flight and the answer appears
// without anybody's help, and returns it if it came. A call that is alone need not
// even take the baton for it. Where the program has one processor, of which the server may
// be in need, a call does so that polls by choice, or whose answers come promptly.
//
// Source: [LWIO §I/O Processing]
func (c *conn) busyPoll(s *slot) (ios wire.IOStatusBlock, came bool) {
	if !c.info.Caps.Has(rdma.CapDirectAlloc) || !s.isPolled() || c.sent.Load()-c.seen.Load() != 1 {
		return ios, false
	}
	if c.single.Load() && s.pace != nil && !s.pace.isPrompt() {
		return ios, false
	}
	var apart atomic.Uint32
	for range busyPolls {
		if ios, came = c.takeOwn(s); came {
			break
		}
		// The processor begins loads of the next turns before that of this one is over,
		// and has to undo them all when the answer comes. It does not begin them before
		// this is done.
		apart.Add(1)
	}
	return ios, came
}

// wait returns the answer to the request of slot s, which the caller must then
// release. After an error the slot is not the caller's any more.
func (c *conn) wait(ctx context.Context, s *slot) (wire.IOStatusBlock, error) {
	c.await(ctx, &s.waiter, s, s.began+c.patience(), false)
	if !s.ready() && ctx.Err() != nil && !c.isDown() {
		s.tick.Store(c.ticks.Load())
		if c.giveUp(s, slotPending) {
			return wire.IOStatusBlock{}, context.Cause(ctx)
		}
	}
	// The answer, or the watchdog, may have come at the same time.
	for s.state() == slotSettling && !c.isDown() {
		runtime.Gosched()
	}
	if !s.ready() {
		return wire.IOStatusBlock{}, c.err // the connection is down
	}
	return c.answer(s)
}

// answer looks at a slot that is ready.
func (c *conn) answer(s *slot) (wire.IOStatusBlock, error) {
	for {
		switch s.state() {
		case slotDone:
			return s.result, nil
		case slotExpired:
			if c.giveUp(s, slotExpired) {
				return wire.IOStatusBlock{}, errTimeout
			}
		case slotLate:
			c.release(s)
			return wire.IOStatusBlock{}, errTimeout
		case slotSettling: // it is becoming late
			if c.isDown() {
				return wire.IOStatusBlock{}, c.err
			}
			runtime.Gosched()
		default:
			<-c.down
			return wire.IOStatusBlock{}, c.err
		}
	}
}

// call sends one message without data and returns the Information of its answer.
// A status other than success is the error.
func (c *conn) call(ctx context.Context, h wire.Header, body []byte) (uint32, error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	s, err := c.acquire(ctx, true)
	if err != nil {
		return 0, err
	}
	s.kind = kindControl
	if err := c.post(s, &h, payload{copied: body}); err != nil {
		return 0, err
	}
	ios, err := c.wait(ctx, s)
	if err != nil {
		return 0, err
	}
	c.release(s)
	return ios.Information, statusError(ios.Status)
}

// statusError is the error of an answer: everything but 0 is a failure.
func statusError(status uint32) error {
	if status == 0 {
		return nil
	}
	return ntstatus.Status(status)
}

// register makes the open with the resume key usable on this connection and
// returns its file id.
//
// Source: [LWIO §File Registration], [OP-54]
func (c *conn) register(ctx context.Context, key [24]byte, options uint32) (uint16, error) {
	params := wire.FIDParams{ResumeKey: key, SessionID: c.peer.sessionID, FlagsAndAttributes: options}
	info, err := c.call(ctx, wire.NewRegister(), params.AppendTo(make([]byte, 0, wire.FIDParamsSize)))
	if err != nil {
		return 0, err
	}
	fid, err := wire.RegisteredFid(info)
	if err != nil {
		c.fail(protocolError("%v", err))
		return 0, c.err
	}
	return fid, nil
}

// closeFid tells the server that the file id is not used any more, and to give up what
// is in flight. Nobody waits for the answer, and without a free credit nothing is sent:
// closing the SMB open revokes the file id anyway.
//
// Source: [LWIO §Close], [LWIO §Cancel], [OP-94e]
func (c *conn) closeFid(fid uint16) {
	if c.enter() != nil {
		return
	}
	defer c.leave()
	c.credits.cancel(c, fid, true)
	s, err := c.acquire(context.Background(), false)
	if s == nil || err != nil {
		return
	}
	s.kind = kindControl
	// A failure to post has ended the connection, and the file id with it.
	h := wire.NewClose(fid)
	_ = c.postDetached(s, &h)
}
