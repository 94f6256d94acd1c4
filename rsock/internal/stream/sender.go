package stream

import (
	"context"
	"sync"

	"lwio/rsock/internal/verbs"
)

// sender sends control messages, and counts the credits of both sides. Safe for concurrent
// use. It takes no lock of another component while it holds its own.
type sender struct {
	c *connection

	mu         sync.Mutex   // guards the fields below
	handle     verbs.Handle // of area
	area       []byte       // the buffers of slots
	slots      []sendSlot
	free       []int     // indexes of slots
	drafted    *sendSlot // the slot of a draft, or nil
	usage      trimUsage
	maxMessage int // largest message to the peer, in bytes

	delayed  []*recvSlot // receives that are posted with the next message
	credits  credits
	started  bool // the credits are known
	sequence uint32
	queue    []control // passing messages that wait for a credit or a slot
}

// sendSlot is one buffer for a control message.
type sendSlot struct {
	over verbs.Overlapped
	buf  []byte
	sge  [1]verbs.BufferEx
}

// control is a message in the queue. Its descriptor is a copy.
type control struct {
	m          Message
	descriptor [MaxDescriptor]byte
}

// rdmaDepth is how many requests other than control messages a stream has pending.
const rdmaDepth = 2 + maxDirect

// init registers the buffers.
func (o *sender) init(ctx context.Context, c *connection) (err error) {
	o.c = c
	size := c.cfg.BufferSize
	n := min(sendBuffers, max(c.sock.Options().SendDepth-rdmaDepth, 1))
	o.area = make([]byte, n*size)
	if o.handle, err = c.sock.RegisterMemory(ctx, o.area, verbs.MemRead); err != nil {
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
	o.maxMessage = MaxNegotiation
	return nil
}

// sent frees a slot. It ignores a failure, because the receives fail too.
func (o *sender) sent(i int, over *verbs.Overlapped) {
	_, err := o.c.sock.GetResult(over) // before the slot can be used again
	o.mu.Lock()
	wasNone := len(o.free) == 0
	o.free = append(o.free, i)
	o.mu.Unlock()
	if err != nil {
		o.c.failBelow(err)
		return
	}
	if wasNone {
		o.c.signal(&o.c.writeWait)
	}
}

// sendFirst sends the message of the negotiation. The message of the active side costs no
// credit, because the sides do not count credits yet.
func (o *sender) sendFirst(m *Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		o.credits.available--
	}
	return o.postLocked(m)
}

// begin takes the negotiations of both sides. The reply of the passive side costs a credit,
// and the active side grants the credit again. The first message of the active side costs no
// credit, because its buffer is posted again before the passive side announces its buffers.
func (o *sender) begin(own, peer *Negotiation, active bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.credits.init(own.Buffers, peer.Buffers)
	if active {
		o.credits.peerAvailable--
		o.credits.ungranted++
	}
	o.maxMessage = min(o.c.cfg.BufferSize, peer.BufferSize)
	o.started = true
}

// room returns how many bytes of data fit a message with a descriptor of the given size.
func (o *sender) room(descriptor int) int { return o.maxMessage - HeaderSize - descriptor }

// trySend sends a message and returns true, if there are a slot and enough credits. A
// message that cannot be posted ends the stream.
func (o *sender) trySend(m *Message, k class) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.trySendLocked(m, k)
}

func (o *sender) trySendLocked(m *Message, k class) bool {
	if !o.credits.allow(k) {
		o.postDelayedLocked() // the message may have to grant their credits
	}
	if len(o.free) == 0 || !o.credits.allow(k) {
		o.c.counts.stalls.Add(1)
		return false
	}
	m.Credits = o.credits.spend()
	if err := o.postLocked(m); err != nil {
		o.c.failBelow(err)
	}
	return true
}

// postLocked posts a message. Precondition: a slot is free.
func (o *sender) postLocked(m *Message) error {
	i := o.free[len(o.free)-1]
	t := &o.slots[i]
	m.Sequence = o.sequence
	if err := o.postSlotLocked(t, len(m.AppendTo(t.buf[:0]))); err != nil {
		return err
	}
	o.free = o.free[:len(o.free)-1]
	return nil
}

// postSlotLocked posts the message of size bytes that is in a slot.
func (o *sender) postSlotLocked(t *sendSlot, size int) error {
	t.sge[0].Length = size
	if err := o.c.sock.Send(&t.over, t.sge[:], 0); err != nil {
		return err
	}
	o.sequence++
	o.c.countUsage(&o.usage, size)
	o.c.counts.messagesOut.Add(1)
	return nil
}

// enqueue queues a passing message. The next flush sends it.
func (o *sender) enqueue(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := control{m: m}
	copy(c.descriptor[:], m.Descriptor)
	o.queue = append(o.queue, c)
}

// flush sends the queued messages that the credits allow, grants credits if it is time, and
// posts the receives.
func (o *sender) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushLocked()
}

func (o *sender) flushLocked() {
	if !o.started {
		o.commitLocked()
		return
	}
	o.postDelayedLocked()
	sent := 0
	for ; sent < len(o.queue); sent++ {
		c := &o.queue[sent]
		c.m.Descriptor = c.descriptor[:len(c.m.Descriptor)]
		if !o.trySendLocked(&c.m, passingClass) && !o.trySendLocked(&c.m, grantClass) {
			break
		}
	}
	if sent > 0 {
		o.queue = append(o.queue[:0], o.queue[sent:]...)
	}
	if o.credits.grantDue() {
		o.trySendLocked(&Message{Type: TypeCredit}, grantClass)
	}
	o.commitLocked()
}

// commitLocked posts receives that were deferred and not posted with a message.
func (o *sender) commitLocked() {
	if err := o.c.sock.Commit(); err != nil {
		o.c.failBelow(err)
	}
}

// arrived counts a message that came. The next flush, or an earlier message, posts its
// buffer again. kept says that the credit is granted only when the program has read the
// payload. ok is false if the peer had no credit for the message or grants too many credits.
// calm is true if the credit can wait and there is nothing to flush.
func (o *sender) arrived(t *recvSlot, m *Message, kept bool) (ok, calm bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.credits.receive(m.Credits) {
		return false, false
	}
	if m.Type == TypeData && !kept && len(o.queue) == 0 && o.credits.delay() {
		o.delayed = append(o.delayed, t)
		return true, true
	}
	if o.deferReceiveLocked(t) {
		o.credits.consumed(kept)
	}
	return true, false
}

// deferReceiveLocked defers a receive: it is posted before the next message, so that the
// message can grant its credit. It returns false after a failure, which ends the stream.
func (o *sender) deferReceiveLocked(t *recvSlot) bool {
	err := o.c.sock.Recv(&t.over, t.sge[:], verbs.Defer)
	if err != nil {
		o.c.failBelow(err)
	}
	return err == nil
}

// postDelayedLocked defers the delayed receives.
func (o *sender) postDelayedLocked() {
	for _, t := range o.delayed {
		if !o.deferReceiveLocked(t) {
			break
		}
		o.credits.posted()
	}
	o.delayed = o.delayed[:0]
}

// released counts n kept messages that the program has read, and sends the queue.
func (o *sender) released(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.credits.read(n)
	o.flushLocked()
}
