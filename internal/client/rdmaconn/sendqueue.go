package rdmaconn

import (
	"runtime"
	"sync"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// signalEvery is the number of sends that share one completion. It frees the places of all of
	// them in the initiator queue.
	signalEvery = 32
	// postRounds is how many times a caller posts the messages of others before another goroutine
	// takes over.
	postRounds = 16
	// postAtOnce is how many requests are posted together where a post costs no system call, so
	// that the server begins while the next are prepared.
	postAtOnce = 8
)

// sendQueue orders the messages of a connection and posts them. One goroutine at a time posts,
// also the messages that others queue meanwhile, so that many messages cost one system call.
// Safe for concurrent use.
type sendQueue struct {
	qp     rdma.QueuePair
	life   *lifecycle
	memory *messageMemory
	table  *requestTable
	status *statusBlocks
	count  *traffic
	single *atomic.Bool // the program has one processor
	counts *base.Counts
	reason func(error) error // prefers the connector's error
	sealed *sealing

	immediates uint32 // all ones if the adapter takes immediate data, else 0 [OP-86]
	direct     bool   // a post costs no system call

	// returning is the number of deliveries to blocking calls that no post followed yet: about so
	// many calls are expected to post again. It is 0 if direct.
	returning atomic.Int64

	mu          sync.Mutex   // guards the following fields
	seq         uint64       // number of the next message; its low 16 bits are the Sequence
	sends       int          // since the connection began
	fresh       int64        // queued I/O requests that traffic.sent does not count yet
	freshPolled someRequests // the fresh requests that are polled and not in statusBlocks.polled yet
	posting     bool         // a goroutine posts
	round       uint64       // of posts, that the next message goes with
	over        uint64       // number of rounds that are posted
	queue       []rdma.Request
	batch       []rdma.Request // being posted; owned by the goroutine that posts

	// The message that is being made. It is part of the queue because a header that is built and
	// copied as a whole costs more than the rest of a request.
	header wire.Header
	data   Payload
}

func (q *sendQueue) init(depth int) {
	q.queue, q.batch = make([]rdma.Request, 0, depth), make([]rdma.Request, 0, depth)
}

// Payload is the part of a message behind the header: bytes to copy, or memory to gather from.
type Payload struct {
	Copied []byte
	Region rdma.MemoryRegion // of the one part to gather, or nil
	Offset int
	Length int
	Gather []rdma.SGE // appended to Request.Gather, or nil
}

// post sends a message whose answer an operation waits for. The header's common fields are filled
// in. After an error the message was not sent and the entry is dead.
//
// Source: [LWIO §I/O Processing], [OP-21], [OP-23], [OP-24], [LWIO claim 22]
func (q *sendQueue) post(s *Request, h *wire.Header, body []byte) error {
	pending := q.count.pending.Load()
	if h.Opcode != wire.OpAuth {
		h.SetPending(int(pending))
	}
	q.mu.Lock()
	if q.life.IsDown() {
		q.mu.Unlock()
		s.kill()
		return q.life.err
	}
	q.addLocked(s, h, &Payload{Copied: body}, requestPending, pending, 0)
	q.postLocked()
	return nil
}

// postDetached sends a message whose answer no operation waits for. message makes the header, or
// reports that there is no message to send. It is called with mu held, which orders messages. False
// says that nothing was sent; the entry is free then.
func (q *sendQueue) postDetached(s *Request, kind requestKind, message func() (wire.Header, bool)) bool {
	s.kind, s.timed = kind, kind == kindWakeUp // an INTERRUPT may wait for long
	pending := q.count.pending.Load()
	q.mu.Lock()
	h, ok := message()
	if !ok || q.life.IsDown() {
		q.mu.Unlock()
		return false
	}
	if kind != kindWakeUp { // which has a number of its own
		h.SetPending(int(pending))
	}
	q.addLocked(s, &h, &Payload{}, requestAbandoned, pending, 0)
	q.postLocked()
	return true
}

// postAll sends the requests of tickets at the time at, as with one post. call says that a
// blocking call has no other requests in flight.
func (q *sendQueue) postAll(list []*Ticket, call bool, at int64) {
	pending := q.count.pending.Load()
	q.mu.Lock()
	for i, t := range list {
		if q.direct && i > 0 && i%postAtOnce == 0 {
			q.postLocked()
			q.mu.Lock()
		}
		t.Owner.Message(t.request, &q.header, &q.data)
		q.header.SetPending(int(pending))
		q.addLocked(t.request, &q.header, &q.data, requestPending, pending, at)
	}
	q.data = Payload{}
	if call {
		q.postTogetherLocked()
	} else {
		q.postLocked()
	}
}

// addLocked makes the message of entry s, which begins at the time at, and queues it. The caller
// posts next.
//
// Source: [OP-21], [OP-23], [OP-24], [OP-89], [OP-112]
func (q *sendQueue) addLocked(s *Request, h *wire.Header, data *Payload, as requestState, pending, at int64) {
	var polled bool
	s.pace, polled = q.status.decide(s.kind, s.want, pending)
	if t := s.ticket; t != nil {
		t.pace, t.polled = s.pace, polled
	}
	if polled && !q.status.sealed {
		at := q.memory.statusAddr(s)
		h.CompleteByWrite(at.Addr, uint32(at.Token))
		s.block.Store(wire.PendingBlock().Uint64())
	} else {
		h.CompleteBySend(s.cookie(), s.immediate()&q.immediates)
	}
	switch {
	case h.Opcode == wire.OpAuth:
	case s.again:
		h.Sequence, s.again = uint16(s.number), false
	default:
		h.Sequence, s.number = uint16(q.seq), q.seq
		q.seq++
	}
	req := q.nextLocked()
	req.ID, req.Flags = uint64(s.index), 0
	if q.sealed.out != nil && h.Opcode != wire.OpAuth {
		q.sealed.stage(s, h, data)
	} else {
		req.SGL = q.gather(s, h, data)
	}
	if q.sends++; q.sends%signalEvery != 0 {
		req.Flags = rdma.FlagSilentSuccess
	}
	if s.buffer != nil && s.kind == kindWrite {
		req.Flags |= rdma.FlagByReference // the Buffer is unchanged until the answer
	}
	s.fid, s.round = 0, q.round
	if s.kind.io() {
		q.fresh++
		s.began, s.fid = at, h.Fid
	}
	if s.kind.changes() {
		q.count.unanswered.Add(1)
	}
	s.startClock(q.count.ticks.Load())
	s.start(as, polled)
	if polled && !q.freshPolled.add(s.index) {
		q.status.polled.addSome(q.freshPolled)
		q.freshPolled = someRequests{}
		q.freshPolled.add(s.index)
	}
}

// gather makes the plain message of entry s, and returns its parts.
func (q *sendQueue) gather(s *Request, h *wire.Header, data *Payload) []rdma.SGE {
	msg := append(h.AppendTo(s.send[:0]), data.Copied...)
	s.sges[0] = rdma.SGE{Region: q.memory.sendMR, Offset: s.sendAt, Length: len(msg)}
	switch {
	case data.Gather != nil:
		return s.sges[:1+len(data.Gather)]
	case data.Region != nil:
		s.sges[1] = rdma.SGE{Region: data.Region, Offset: data.Offset, Length: data.Length}
		return s.sges[:2]
	}
	return s.sges[:1]
}

// postBatch posts the batch, and seals it before on a sealed connection.
func (q *sendQueue) postBatch() error {
	if q.sealed.out != nil {
		return q.sealed.post(q)
	}
	_, err := q.qp.Post(q.batch)
	return err
}

// nextLocked adds a send to the queue. It may be an earlier one: the sends of a connection differ
// in ID, SGL and Flags only.
func (q *sendQueue) nextLocked() *rdma.Request {
	n := len(q.queue)
	if n < cap(q.queue) {
		q.queue = q.queue[:n+1]
	} else {
		q.queue = append(q.queue, rdma.Request{})
	}
	q.queue[n].Op = rdma.OpSend
	return &q.queue[n]
}

// postLocked ensures that the queue is posted, and unlocks mu.
func (q *sendQueue) postLocked() {
	q.countLocked()
	if q.posting {
		q.mu.Unlock()
		return // the goroutine that posts takes the queue along
	}
	q.posting = true
	q.flushLocked()
}

// countLocked counts the I/O requests in the queue, and adds those that are polled to the set
// that the poller looks at.
func (q *sendQueue) countLocked() {
	if q.fresh > 0 {
		q.count.sent.Add(q.fresh)
		q.status.polled.addSome(q.freshPolled)
		q.fresh, q.freshPolled = 0, someRequests{}
	}
}

// postTogetherLocked is postLocked for a blocking call. Calls with answers that came together
// send their next requests together: the first of them lets the others run and queue their
// requests, and posts all. Where a post costs no system call the first does not wait. It does not
// wait either if a poller on another processor looks for status blocks: the poller could take the
// processor that the others need.
func (q *sendQueue) postTogetherLocked() {
	others := q.returning.Load()
	if others > 0 {
		others = q.returning.Add(-1)
	}
	if others <= 0 || q.posting || !q.single.Load() && (q.freshPolled.members != 0 || !q.status.polled.empty()) {
		q.postLocked()
		return
	}
	q.posting = true
	q.countLocked()
	own := len(q.queue)
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
	if len(q.queue) == own {
		q.returning.Add(-others) // these calls send no further request
	}
	q.flushLocked()
}

// flushLocked posts the queue until it is empty, and unlocks mu. A failure ends the connection.
// Precondition: the caller has set posting.
func (q *sendQueue) flushLocked() {
	for range postRounds {
		if len(q.queue) == 0 {
			q.posting = false
			q.mu.Unlock()
			return
		}
		q.queue, q.batch = q.batch[:0], q.queue
		q.round++
		q.mu.Unlock()
		if err := q.postBatch(); err != nil {
			q.life.Fail(q.reason(err))
		}
		q.mu.Lock()
		q.over = q.round
	}
	q.mu.Unlock()
	// Other callers keep the queue full. A goroutine goes on, so that this caller can return. The
	// teardown waits for that goroutine.
	go func() {
		if q.life.Pin() != nil {
			return
		}
		defer q.life.Unpin()
		q.mu.Lock()
		q.flushLocked()
	}()
}

// awaitPost returns when the messages of a round are posted, or will not be: then no message refers to
// memory of a caller that leaves. Once the connection is down, the post that runs is the last one that
// reads such memory. A plain connection does not wait for that post, because the provider ends the
// access to a region before the region is closed.
func (q *sendQueue) awaitPost(round uint64) {
	for ; ; runtime.Gosched() {
		q.mu.Lock()
		over := q.over > round || q.life.IsDown() && (q.sealed.out == nil || q.over == q.round)
		q.mu.Unlock()
		if over {
			return
		}
	}
}

// nextNumber is the number of the next message.
func (q *sendQueue) nextNumber() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seq
}

// announceEnd sends the last message of a sealed connection that has not failed, so that the server
// can tell the close from an attack. If a request has no answer, or no credit is free, the server counts
// the connection as lost.
func (q *sendQueue) announceEnd() {
	if !q.sealed.ready || q.sealed.unanswered.Load() || q.count.inFlight() > 0 || q.life.Pin() != nil {
		return
	}
	defer q.life.Unpin()
	if s := q.table.free.take(); s != nil {
		posted := q.postDetached(s, kindControl, func() (wire.Header, bool) { return wire.NewClose(wire.NoFid), true })
		q.sealed.announced.Store(posted)
	}
}
