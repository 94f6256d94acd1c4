package stream

import (
	"context"
	"sync"

	"lwio/rsock/internal/verbs"
)

// outbound is what leaves: control messages, credits, and the offers of this side.
type outbound struct {
	s *Stream

	mu     sync.Mutex   // guards what follows
	handle verbs.Handle // of area
	area   []byte
	slots  []sendSlot
	free   []int     // of slots
	lent   *sendSlot // that a ReadFrom has, or nil
	usage  usage
	most   int // bytes that a message to the peer may have

	spent    []*recvSlot // receives that are delayed: who has the message may answer first
	credits  credits
	started  bool // credits are known
	sequence uint32
	queue    []control // passing messages that wait for a credit or a slot

	sending offersOut
	stage   stage
}

// sendSlot is one buffer for control messages.
type sendSlot struct {
	over verbs.Overlapped
	buf  []byte
	sge  [1]verbs.BufferEx
}

// control is a message that is sent when it can be; descriptor is copied.
type control struct {
	m          Message
	descriptor [MaxDescriptor]byte
}

// init registers the buffers.
func (o *outbound) init(ctx context.Context, s *Stream) (err error) {
	o.s = s
	size := s.cfg.BufferSize
	n := min(sendBuffers, max(s.sock.Options().SendDepth-rdmaDepth, 1))
	o.area = make([]byte, n*size)
	if o.handle, err = s.sock.RegisterMemory(ctx, o.area, verbs.MemRead); err != nil {
		return err
	}
	o.slots = make([]sendSlot, n)
	for i := range o.slots {
		t := &o.slots[i]
		t.buf = o.area[i*size : (i+1)*size]
		t.sge[0] = verbs.BufferEx{Handle: o.handle, Offset: i * size}
		t.over.Complete = func(over *verbs.Overlapped) { o.sent(i, over) }
		o.free = append(o.free, i)
	}
	o.most = MaxNegotiation
	o.sending.over.Complete = o.written
	return nil
}

// rdmaDepth is how many requests besides control messages a stream has pending.
const rdmaDepth = 2 + maxDirect

// sent says that a buffer is free again. A failure shows in the receives too.
func (o *outbound) sent(i int, over *verbs.Overlapped) {
	_, err := o.s.sock.GetResult(over) // before others can use it again
	o.mu.Lock()
	wasNone := len(o.free) == 0
	o.free = append(o.free, i)
	o.mu.Unlock()
	if err != nil {
		o.s.fail(connectionError(&o.s.sock, err))
		return
	}
	if wasNone {
		o.s.baton.signal(&o.s.writer)
	}
}

// greet sends the message of the negotiation, which costs no credit that anybody counts
// yet.
func (o *outbound) greet(m *Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		o.credits.own--
	}
	return o.postLocked(m)
}

// begin takes in what both sides have said. The acceptor's reply costs a credit, which the
// active side owes from the beginning; the first message of the active side none, as its
// buffer is posted again before the acceptor tells of any.
func (o *outbound) begin(own, peer *Negotiation, active bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.credits.init(own.Buffers, peer.Buffers)
	if active {
		o.credits.peer--
		o.credits.owed++
	}
	o.most = min(o.s.cfg.BufferSize, peer.BufferSize)
	o.sending.init(peer)
	o.started = true
}

// room is how many bytes of data fit a message with a descriptor of so many.
func (o *outbound) room(descriptor int) int { return o.most - HeaderSize - descriptor }

// trySend sends a message, if there are the credits and a buffer for it, and tells whether
// it did. What cannot be posted ends the stream.
func (o *outbound) trySend(m *Message, k class) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.trySendLocked(m, k)
}

func (o *outbound) trySendLocked(m *Message, k class) bool {
	if !o.credits.may(k) {
		o.catchUpLocked() // it may have to owe something
	}
	if len(o.free) == 0 || !o.credits.may(k) {
		o.s.counts.held.Add(1)
		return false
	}
	m.Credits = o.credits.spend()
	if err := o.postLocked(m); err != nil {
		o.s.fail(connectionError(&o.s.sock, err))
	}
	return true
}

// postLocked posts a message; there must be a buffer.
func (o *outbound) postLocked(m *Message) error {
	i := o.free[len(o.free)-1]
	t := &o.slots[i]
	m.Sequence = o.sequence
	if err := o.sendLocked(t, len(m.AppendTo(t.buf[:0]))); err != nil {
		return err
	}
	o.free = o.free[:len(o.free)-1]
	return nil
}

// sendLocked posts the message of so many bytes that is in a buffer.
func (o *outbound) sendLocked(t *sendSlot, size int) error {
	t.sge[0].Length = size
	if err := o.s.sock.Send(&t.over, t.sge[:], 0); err != nil {
		return err
	}
	o.sequence++
	o.s.used(&o.usage, size)
	o.s.counts.messagesOut.Add(1)
	return nil
}

// enqueueLocked sends a passing message as soon as it can be.
func (o *outbound) enqueueLocked(m Message) {
	c := control{m: m}
	copy(c.descriptor[:], m.Descriptor)
	o.queue = append(o.queue, c)
}

// enqueue is enqueueLocked; flush sends.
func (o *outbound) enqueue(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.enqueueLocked(m)
}

// flush sends what waits, and credits if it is time, and posts receives.
func (o *outbound) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushLocked()
}

func (o *outbound) flushLocked() {
	if !o.started {
		o.commitLocked()
		return
	}
	o.catchUpLocked()
	sent := 0
	for ; sent < len(o.queue); sent++ {
		c := &o.queue[sent]
		c.m.Descriptor = c.descriptor[:len(c.m.Descriptor)]
		if !o.trySendLocked(&c.m, passing) && !o.trySendLocked(&c.m, granting) {
			break
		}
	}
	if sent > 0 {
		o.queue = append(o.queue[:0], o.queue[sent:]...)
	}
	if o.credits.grantNow() {
		o.trySendLocked(&Message{Type: TypeCredit}, granting)
	}
	o.commitLocked()
}

// commitLocked posts receives that were deferred and not posted with a message.
func (o *outbound) commitLocked() {
	if err := o.s.sock.Commit(); err != nil {
		o.s.fail(connectionError(&o.s.sock, err))
	}
}

// arrived takes in that a message came, whose buffer is posted again, at the latest by the
// next flush. keep says that its credit is not owed yet. ok is false if the peer had no credit
// for it, or grants too many; calm says that there is no hurry, and nothing to flush.
func (o *outbound) arrived(t *recvSlot, m *Message, keep bool) (ok, calm bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.credits.receive(m.Credits) {
		return false, false
	}
	if m.Type == TypeData && !keep && len(o.queue) == 0 && o.credits.delay() {
		o.spent = append(o.spent, t)
		return true, true
	}
	if o.recvLocked(t) {
		o.credits.consumed(keep)
	}
	return true, false
}

// recvLocked defers a receive: it is posted before the next message, so that its credit may
// go with that. It is false if the stream has ended by that.
func (o *outbound) recvLocked(t *recvSlot) bool {
	err := o.s.sock.Recv(&t.over, t.sge[:], verbs.Defer)
	if err != nil {
		o.s.fail(connectionError(&o.s.sock, err))
	}
	return err == nil
}

// catchUpLocked defers the receives that were delayed.
func (o *outbound) catchUpLocked() {
	for _, t := range o.spent {
		if !o.recvLocked(t) {
			break
		}
		o.credits.posted()
	}
	o.spent = o.spent[:0]
}

// released says that n messages that were kept are read. It sends what waits for that.
func (o *outbound) released(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.credits.read(n)
	o.flushLocked()
}
