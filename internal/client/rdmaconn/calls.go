package rdmaconn

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// Acquire takes a credit. With block false it returns nil if there is none; else it
// waits no longer than ctx allows or, if ctx has no deadline, than Config.Timeout.
func (c *Conn) Acquire(ctx context.Context, block bool) (*Request, error) {
	_, own := ctx.Deadline()
	if s := c.Table.Free.take(); s != nil {
		s.Own = own
		return s, nil
	}
	if !block {
		return nil, nil
	}
	c.Progress.Poller.Block()
	defer c.Progress.Poller.Unblock()
	c.ArmForOthers()
	var late <-chan time.Time
	if !own {
		t := c.timer()
		defer c.Table.timers.Put(t)
		defer t.Stop()
		late = t.C
	}
	place := c.Table.Free.join()
	defer func() {
		c.Table.Free.leave(place)
		c.Unused(SomeRequests{})
	}()
	select {
	case s := <-place:
		s.Own = own
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.Life.Down:
		return nil, c.Life.Err
	case <-late:
		return nil, ErrNoCredit
	}
}

// timer starts a timer for Config.Timeout, one that was used before if there is one.
func (c *Conn) timer() *time.Timer {
	t, ok := c.Table.timers.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(c.Cfg.Timeout)
	}
	t.Reset(c.Cfg.Timeout)
	return t
}

// Release gives the credit back.
func (c *Conn) Release(s *Request) {
	s.drop()
	s.renew()
	if c.Credits.work.Load() && c.Credits.use(c, s) {
		return
	}
	c.Table.Free.put(s)
	c.Unused(SomeRequests{})
}

// Unused gives back credits that were taken and not used, if any, and sees to the CREDIT
// and CANCEL messages that may have found none meanwhile.
func (c *Conn) Unused(some SomeRequests) {
	c.Table.Free.putBack(some)
	if c.Credits.work.Load() {
		c.Credits.pump(c)
	}
}

// Payload is the part of a message behind the header: bytes to copy, or a part of a region to
// gather from.
type Payload struct {
	Copied []byte
	Region rdma.MemoryRegion
	Offset int
	Length int
	Gather []rdma.SGE // parts of regions, which stand in the entry already
}

// post sends the message of entry s. The header's common fields are filled in.
// After an error the message was not sent, and the entry is not the caller's any
// more.
//
// Source: [LWIO §I/O Processing], [OP-21], [OP-23], [OP-24], [LWIO claim 22]
func (c *Conn) post(s *Request, h *wire.Header, data Payload) error {
	return c.postAs(s, h, data, RequestPending)
}

// postDetached sends a message to whose answer no call waits.
func (c *Conn) postDetached(s *Request, h *wire.Header) error {
	return c.postAs(s, h, Payload{}, RequestAbandoned)
}

func (c *Conn) postAs(s *Request, h *wire.Header, data Payload, as RequestState) error {
	if h.Opcode != wire.OpAuth {
		h.SetPending(int(c.Wanting.Load()))
	}
	c.Queue.Mu.Lock()
	if c.IsDown() {
		c.Queue.Mu.Unlock()
		s.Set(RequestDead)
		return c.Life.Err
	}
	c.QueueLocked(s, h, &data, as, c.Clock())
	c.StartPosting()
	return nil
}

// QueueLocked makes the message of entry s, which begins at that time, and queues it.
// Precondition: sendQueue.Mu is held. The caller then calls startPosting next.
//
// Source: [OP-21], [OP-23], [OP-24], [OP-89], [OP-112]
func (c *Conn) QueueLocked(s *Request, h *wire.Header, data *Payload, as RequestState, at int64) {
	polled := c.polls(s)
	if t := s.Op; t != nil {
		t.pace, t.polled = s.pace, polled
	}
	if polled {
		at := c.Memory.statusAddr(s)
		h.CompleteByWrite(at.Addr, uint32(at.Token))
		s.Block.Store(wire.PendingBlock().Uint64())
	} else {
		h.CompleteBySend(s.cookie(), s.immediate()&c.immediates)
	}
	switch {
	case h.Opcode == wire.OpAuth:
	case s.Again:
		h.Sequence, s.Again = uint16(s.Number), false
	default:
		h.Sequence, s.Number = uint16(c.Queue.seq), c.Queue.seq
		c.Queue.seq++
	}
	msg := append(h.AppendTo(s.Send[:0]), data.Copied...)
	s.Sges[0] = rdma.SGE{Region: c.Memory.SendMR, Offset: s.sendAt, Length: len(msg)}
	sgl := s.Sges[:1]
	if data.Region != nil {
		s.Sges[1] = rdma.SGE{Region: data.Region, Offset: data.Offset, Length: data.Length}
		sgl = s.Sges[:2]
	}
	if data.Gather != nil {
		sgl = s.Sges[:1+len(data.Gather)]
	}
	req := c.Queue.addLocked()
	req.ID, req.SGL, req.Flags = uint64(s.Index), sgl, 0
	if c.Queue.Sends++; c.Queue.Sends%SignalEvery != 0 {
		req.Flags = rdma.FlagSilentSuccess
	}
	if s.Buffer != nil && s.Kind == KindWrite {
		req.Flags |= rdma.FlagByReference // until the answer is there, the goroutine that waits for it
	}
	s.Fid, s.Round = 0, c.Queue.round
	if s.Kind.io() {
		c.Queue.fresh++
		s.began, s.Fid = at, h.Fid
	}
	if s.Kind == KindWrite {
		c.Unanswered.Add(1)
	}
	tick := c.Ticks.Load()
	if s.Own {
		tick = untimed
	}
	if s.Tick.Load() != tick {
		s.Tick.Store(tick)
	}
	s.Start(as, polled)
	if polled && !c.Queue.freshPolled.add(s.Index) {
		c.Status.Polled.addSome(c.Queue.freshPolled)
		c.Queue.freshPolled = SomeRequests{}
		c.Queue.freshPolled.add(s.Index)
	}
}

// addLocked adds a send to the queue, which may be one that was there before: of its ID,
// SGL and Flags, which are all that the sends of a connection differ in.
func (q *sendQueue) addLocked() *rdma.Request {
	n := len(q.queue)
	if n < cap(q.queue) {
		q.queue = q.queue[:n+1]
	} else {
		q.queue = append(q.queue, rdma.Request{})
	}
	q.queue[n].Op = rdma.OpSend
	return &q.queue[n]
}

// StartPosting ensures that the queue is posted, and unlocks sendQueue.Mu, which
// the caller holds.
func (c *Conn) StartPosting() {
	c.countLocked()
	if c.Queue.Posting {
		c.Queue.Mu.Unlock()
		return // the goroutine that posts takes it along
	}
	c.Queue.Posting = true
	c.flushLocked()
}

// countLocked counts the I/O requests that were queued, and has those that are polled for
// looked for.
func (c *Conn) countLocked() {
	if c.Queue.fresh > 0 {
		c.Queue.sent.Add(c.Queue.fresh)
		c.Status.Polled.addSome(c.Queue.freshPolled)
		c.Queue.fresh, c.Queue.freshPolled = 0, SomeRequests{}
	}
}

// PostTogether is startPosting for a blocking call. Calls whose answers came together are
// about to send their next requests together: the first of them that finds the others on the
// way lets them queue theirs, and posts all.
// Where a post costs no system call they do not wait for each other; nor while status blocks
// are outstanding, as the poller would have the processor meanwhile.
func (c *Conn) PostTogether() {
	others := c.Queue.returning.Load()
	if others > 0 {
		others = c.Queue.returning.Add(-1)
	}
	if others > 0 && !c.Queue.Posting && c.Queue.freshPolled.Members == 0 && c.Status.Polled.Empty() {
		c.Queue.Posting = true
		c.Queue.returning.Store(0)
		c.countLocked()
		c.Queue.Mu.Unlock()
		runtime.Gosched()
		c.Queue.Mu.Lock()
		c.flushLocked()
		return
	}
	c.StartPosting()
}

// flushLocked posts the queue until it is empty, and unlocks sendQueue.Mu, which the
// caller holds with posting set. A failure ends the connection.
func (c *Conn) flushLocked() {
	for range postRounds {
		if len(c.Queue.queue) == 0 {
			c.Queue.Posting = false
			c.Queue.Mu.Unlock()
			return
		}
		c.Queue.queue, c.Queue.batch = c.Queue.batch[:0], c.Queue.queue
		c.Queue.round++
		c.Queue.Mu.Unlock()
		if _, err := c.qp.Post(c.Queue.batch); err != nil {
			c.Fail(c.reason(err))
		}
		c.Queue.Mu.Lock()
		c.Queue.over = c.Queue.round
	}
	c.Queue.Mu.Unlock()
	// Others keep the queue full; a caller is not to be held up by that for good.
	// The teardown waits for the goroutine by taking life.
	go func() {
		if !c.Life.Mu.TryRLock() {
			return // the connection is down
		}
		defer c.Life.Mu.RUnlock()
		c.Queue.Mu.Lock()
		c.flushLocked()
	}()
}

// Timeouts by Config.Timeout: of a request, or the wait for a credit.
var (
	ErrTimeout  = fmt.Errorf("no answer from the server: %w", os.ErrDeadlineExceeded)
	ErrNoCredit = fmt.Errorf("no answer to earlier requests from the server: %w", os.ErrDeadlineExceeded)
)

// busyPolls is how often a call looks for its own answer, for a few microseconds, before
// it begins to see to the whole connection.
const busyPolls = 1000

// BusyPoll looks for the answer of s, if nothing else is in flight and the answer appears
// without any call's help, and returns it if it came. A call that is alone need not
// even take the poller's role for it. Where the program has one processor, of which the server may
// be in need, a call does so that polls by choice, or whose answers come promptly.
//
// Source: [LWIO §I/O Processing]
func (c *Conn) BusyPoll(s *Request, t *Ticket, life uint64) (ios wire.IOStatusBlock, came bool) {
	if !c.Info.Caps.Has(rdma.CapDirectAlloc) || !t.polled || c.Queue.sent.Load()-c.Seen.Load() != 1 {
		return ios, false
	}
	if c.Progress.single.Load() && t.pace != nil && !t.pace.isPrompt() {
		return ios, false
	}
	var apart atomic.Uint32
	for range busyPolls {
		if ios, came = c.takeOwn(s, life); came {
			break
		}
		// The processor begins loads of the next turns before that of this one is over,
		// and has to undo them all when the answer comes. It does not begin them before
		// this is done.
		apart.Add(1)
	}
	return ios, came
}

// wait returns the answer to the request of entry s, which the caller must then
// release. After an error the entry is not the caller's any more.
func (c *Conn) wait(ctx context.Context, s *Request) (wire.IOStatusBlock, error) {
	c.Await(ctx, &s.Waiter, s, s.began+c.Patience(), false)
	if !s.Ready() && ctx.Err() != nil && !c.IsDown() {
		s.Tick.Store(c.Ticks.Load())
		if c.giveUp(s, RequestPending) {
			return wire.IOStatusBlock{}, context.Cause(ctx)
		}
	}
	// The answer, or the watchdog, may have come at the same time.
	for s.State() == RequestSettling && !c.IsDown() {
		runtime.Gosched()
	}
	if !s.Ready() {
		return wire.IOStatusBlock{}, c.Life.Err // the connection is down
	}
	return c.answer(s)
}

// answer looks at an entry that is ready.
func (c *Conn) answer(s *Request) (wire.IOStatusBlock, error) {
	for {
		switch s.State() {
		case RequestDone:
			return s.result, nil
		case requestExpired:
			if c.giveUp(s, requestExpired) {
				return wire.IOStatusBlock{}, ErrTimeout
			}
		case requestLate:
			c.Release(s)
			return wire.IOStatusBlock{}, ErrTimeout
		case RequestSettling: // it is becoming late
			if c.IsDown() {
				return wire.IOStatusBlock{}, c.Life.Err
			}
			runtime.Gosched()
		default:
			<-c.Life.Down
			return wire.IOStatusBlock{}, c.Life.Err
		}
	}
}

// call sends one message without data and returns the Information of its answer.
// A status other than success is the error.
func (c *Conn) call(ctx context.Context, h wire.Header, body []byte) (uint32, error) {
	if err := c.Enter(); err != nil {
		return 0, err
	}
	defer c.Leave()
	s, err := c.Acquire(ctx, true)
	if err != nil {
		return 0, err
	}
	s.Kind = kindControl
	if err := c.post(s, &h, Payload{Copied: body}); err != nil {
		return 0, err
	}
	ios, err := c.wait(ctx, s)
	if err != nil {
		return 0, err
	}
	c.Release(s)
	return ios.Information, StatusError(ios.Status)
}

// StatusError is the error of an answer: everything but 0 is a failure.
func StatusError(status uint32) error {
	if status == 0 {
		return nil
	}
	return ntstatus.Status(status)
}

// Register makes the open with the resume key usable on this connection and
// returns its file id.
//
// Source: [LWIO §File Registration], [OP-54]
func (c *Conn) Register(ctx context.Context, key [24]byte, options uint32) (uint16, error) {
	params := wire.FIDParams{ResumeKey: key, SessionID: c.Peer.sessionID, FlagsAndAttributes: options}
	info, err := c.call(ctx, wire.NewRegister(), params.AppendTo(make([]byte, 0, wire.FIDParamsSize)))
	if err != nil {
		return 0, err
	}
	fid, err := wire.RegisteredFid(info)
	if err != nil {
		c.Fail(base.ProtocolError("%v", err))
		return 0, c.Life.Err
	}
	return fid, nil
}

// CloseFid tells the server that the file id is not used any more, and to give up the requests
// in flight. No call waits for the answer, and without a free credit nothing is sent:
// closing the SMB open revokes the file id anyway.
//
// Source: [LWIO §Close], [LWIO §Cancel], [OP-94e]
func (c *Conn) CloseFid(fid uint16) {
	if c.Enter() != nil {
		return
	}
	defer c.Leave()
	c.Credits.Cancel(c, fid, true)
	s, err := c.Acquire(context.Background(), false)
	if s == nil || err != nil {
		return
	}
	s.Kind = kindControl
	// A failure to post has ended the connection, and the file id with it.
	h := wire.NewClose(fid)
	_ = c.postDetached(s, &h)
}

// maxBehind is how many messages ago a write may have been sent for the first time that
// is sent again: its Sequence has 16 bits. [OP-112]
const maxBehind = 1<<15 - 1

// maxFarBehind is that for writes of connections before the last one: of those the
// server forgets the oldest outcomes when there are many. [OP-112]
const maxFarBehind = 512

// TooOld tells whether a message was sent too long ago to be sent again. That leaves
// room enough for those that others may send meanwhile.
func (c *Conn) TooOld(number uint64) bool {
	behind := c.Queue.nextNumber() - number
	return behind > maxBehind || number < c.priorFirst && behind > maxFarBehind
}

// nextNumber is the number of the next message.
func (q *sendQueue) nextNumber() uint64 {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.seq
}
