package stream

import (
	"context"
	"sync"

	"lwio/rsock/internal/verbs"
)

// receiver receives control messages and passes each to its component. It is the source of
// completions.
//
// mu guards the whole receive side: the receiver, its handshake, its input with the fetcher,
// its urgent data, and the received part of the closer. It is held while completions are
// handled. The locks of offers, stage and sender come after it.
type receiver struct {
	c      *connection
	tx     *sender
	offers *offers
	closer *closer

	mu       sync.Mutex   // guards the fields below
	handle   verbs.Handle // of area
	area     []byte       // the buffers of slots, and the spare buffer of the fetcher
	slots    []recvSlot
	calm     int  // completions of this poll that leave nothing to flush
	unsent   bool // the sender may have delayed receives
	usage    trimUsage
	broken   bool // the peer broke a rule: its further messages are ignored
	sequence uint32
	users    int // calls that use memory of the stream and hold no lock

	handshake handshake
	input     input
	urgent    urgentQueue
}

// recvSlot is one buffer for a control message.
type recvSlot struct {
	over verbs.Overlapped
	buf  []byte
	sge  [1]verbs.BufferEx
}

// init registers the buffers and posts the receives.
func (r *receiver) init(ctx context.Context, c *connection, tx *sender, f *offers, l *closer) (err error) {
	r.c, r.tx, r.offers, r.closer = c, tx, f, l
	n, size := c.cfg.ReceiveBuffers, c.cfg.BufferSize
	r.area = make([]byte, (n+1)*size)
	if r.handle, err = c.sock.RegisterMemory(ctx, r.area, verbs.MemWrite); err != nil {
		return err
	}
	r.handshake = handshake{c: c, tx: tx, offers: f}
	r.input.init(c, tx, n)
	r.input.progressed = r.progressLocked
	r.input.fetch.spare = r.area[n*size:]
	r.input.fetch.spareAt = verbs.BufferEx{Handle: r.handle, Offset: n * size}
	r.slots = make([]recvSlot, n)
	for i := range r.slots {
		t := &r.slots[i]
		t.buf = r.area[i*size : (i+1)*size]
		t.sge[0] = verbs.BufferEx{Handle: r.handle, Offset: i * size, Length: size}
		t.over.Complete = func(over *verbs.Overlapped) { r.received(t, over) }
		if err := c.sock.Recv(&t.over, t.sge[:], verbs.Defer); err != nil {
			return err
		}
	}
	return c.sock.Commit()
}

// poll handles the completions that are there and sends the messages that result from them.
// It returns the number of completions.
func (r *receiver) poll() int {
	r.mu.Lock()
	if r.c.dead.Load() {
		r.mu.Unlock()
		return 0
	}
	if r.unsent {
		r.unsent = false
		r.tx.flush()
	}
	r.calm = 0
	n, err := r.c.sock.Poll()
	if n > r.calm {
		r.unsent = false
		r.progressLocked()
	}
	r.mu.Unlock()
	if err != nil {
		r.c.failBelow(err)
	}
	return n
}

// progressLocked sends the messages that result from completions.
func (r *receiver) progressLocked() {
	r.closer.progressLocked()
	r.tx.flush()
}

// sleep waits until there may be a completion, or ctx ends.
func (r *receiver) sleep(ctx context.Context) {
	if err := r.c.sock.Wait(ctx); err != nil && ctx.Err() == nil {
		r.c.failBelow(err)
	}
}

// received handles a message, and its buffer is posted again. Precondition: mu is held, or
// the socket is being closed and the stream is dead.
//
// Source: [WSD §4], [WSD §5.1]
func (r *receiver) received(t *recvSlot, over *verbs.Overlapped) {
	if r.c.dead.Load() || r.broken {
		return
	}
	n, err := r.c.sock.GetResult(over)
	if err != nil {
		r.c.lost(err)
		return
	}
	m, kept, err := r.handleMessage(t.buf[:n])
	if err != nil {
		r.broken = true
		r.c.fail(err)
		return
	}
	r.c.counts.messagesIn.Add(1)
	r.c.countUsage(&r.usage, n)
	if m.Type == r.handshake.expected {
		if err := r.c.sock.Recv(over, t.sge[:], verbs.Defer); err != nil {
			r.c.lost(err)
		}
		return
	}
	ok, calm := r.tx.arrived(t, &m, kept)
	if !ok {
		r.broken = true
		r.c.fail(violation("%v: more messages or credits than there may be", m.Type))
	}
	if calm {
		r.calm++
		r.unsent = true
	}
	if m.Credits > 0 {
		r.c.signal(&r.c.writeWait)
	}
}

// handleMessage decodes a message and acts on it. kept says that its credit is granted only
// when the program has read the payload. An error ends the stream.
func (r *receiver) handleMessage(b []byte) (m Message, kept bool, err error) {
	if m, err = Decode(b); err != nil {
		return m, false, err
	}
	if m.Sequence != r.sequence {
		return m, false, violation("%v: sequence %d instead of %d", m.Type, m.Sequence, r.sequence)
	}
	r.sequence++
	if !r.handshake.done {
		return m, false, r.handshake.take(&m)
	}
	kept, err = r.dispatch(&m)
	return m, kept, err
}

// dispatch acts on a message of an established session.
func (r *receiver) dispatch(m *Message) (kept bool, err error) {
	switch m.Type {
	case TypeData:
		return r.input.takeData(m.Payload)
	case TypeUrgent:
		return false, r.takeUrgent(m.Payload)
	case TypeOffer:
		return r.input.takeOffer(m)
	case TypeReady:
		return false, r.offers.takeReady(m)
	case TypeDone:
		if m.Flags&FlagYours == 0 {
			return false, r.input.fetch.takeWritten(m)
		}
		return false, r.offers.takeDone(m)
	case TypeFail:
		if m.Flags&FlagYours == 0 {
			return false, r.input.takeWithdrawal(m)
		}
		return false, r.offers.takeFail(m)
	case TypeCredit:
		return false, nil
	case TypeShutdown:
		return false, r.closer.takeShutdown(m)
	case TypeSuspend, TypeSuspendAck, TypeResume:
		return false, ErrSuspend
	case TypeNegotiate, TypeNegotiateAck:
	}
	return false, violation("%v in the middle", m.Type)
}

// takeUrgent keeps urgent data. Urgent data holds no credit, because a program may never
// read it. New data replaces the oldest, as with TCP.
//
// Source: [WSD §5.5]
func (r *receiver) takeUrgent(p []byte) error {
	switch {
	case r.input.eof:
		return violation("%v after the end of the stream", TypeUrgent)
	case r.input.discard:
		return nil
	}
	if dropped := r.urgent.push(p); dropped > 0 {
		r.c.counts.urgentDropped.Add(uint64(dropped))
	}
	r.c.signal(&r.c.urgentWait)
	return nil
}

// awaited returns false if a condition is met or the stream has failed. Otherwise it waits
// once and returns true. The condition is evaluated with mu held.
func (r *receiver) awaited(w *waiter, met func() bool) bool {
	w.flag.Store(false)
	r.mu.Lock()
	ok := met() || r.c.failure() != nil
	r.mu.Unlock()
	if !ok {
		r.c.wait(w)
	}
	return !ok
}

// enter keeps the memory of the stream beyond Close, until leave. It returns false if the
// memory is gone.
func (r *receiver) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c.dead.Load() {
		return false
	}
	r.users++
	return true
}

// leave ends enter. The last user after Close closes the socket.
func (r *receiver) leave() {
	r.mu.Lock()
	r.users--
	last := r.c.dead.Load() && r.users == 0
	r.mu.Unlock()
	if last {
		_ = r.closer.closeSocket() // Close has returned, so the error has no receiver
	}
}
