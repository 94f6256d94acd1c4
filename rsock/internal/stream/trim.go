package stream

import (
	"time"

	"lwio/internal/host"
)

const (
	// trimInterval is how long memory for large data stays without use. The trimmer runs at
	// this interval while there is memory to give back.
	trimInterval = time.Second
	// bufferIdle is how long the pages of control buffers, and memory that the provider
	// keeps for the connection, stay without a message. A trim is worth its cost after
	// trimWorth bytes in one direction. Each message counts messageShare bytes more,
	// because even a short message takes a page of a buffer.
	bufferIdle   = 3 * time.Second
	trimWorth    = 8 << 10
	messageShare = 4 << 10
)

// trimUsage counts the bytes that went through the control buffers of one direction since
// their pages were given back. The lock of the direction guards it.
type trimUsage struct {
	bytes int  // counted until they are worth a trim
	noted bool // bytes are worth a trim, and the trimmer runs
}

// countUsage counts a message of size bytes. Precondition: the lock of the usage is held.
func (c *connection) countUsage(u *trimUsage, size int) {
	if !u.noted && c.pageable {
		c.noteUsage(u, size)
	}
}

func (c *connection) noteUsage(u *trimUsage, size int) {
	if u.bytes += size + messageShare; u.bytes >= trimWorth {
		u.noted = true
		c.trimLater()
	}
}

// trimmer gives memory of an idle stream back: the stage, the memory for small reads, and the
// pages of the control buffers. receiver.mu guards it.
type trimmer struct {
	c     *connection
	rx    *receiver
	tx    *sender
	stage *stage

	messages uint64 // sent and received at the last run
	ticks    int    // runs without a message since
}

// run frees memory that was idle for its interval, and starts the timer again if more memory
// is left. The timer calls it.
func (m *trimmer) run() {
	m.rx.mu.Lock()
	defer m.rx.mu.Unlock()
	if m.c.dead.Load() || m.c.closing.Load() {
		return
	}
	again := m.rx.input.trim()
	again = m.trimBuffersLocked() || again
	if m.stage.trim() || again {
		m.c.trimLater()
	}
}

// trim frees the memory for small reads if it is not in use, and reports whether the memory
// is still there.
func (in *input) trim() bool {
	unread := in.views > 0 || in.items.len() > 0 && in.items.at(0).offer != nil && len(in.items.at(0).data) > 0
	return in.fetch.trimTemp(unread)
}

// trimBuffersLocked frees the pages of the control buffers if no message was sent or
// received for bufferIdle. It reports whether it must be called again.
func (m *trimmer) trimBuffersLocked() bool {
	m.tx.mu.Lock()
	defer m.tx.mu.Unlock()
	if !m.rx.usage.noted && !m.tx.usage.noted {
		return false
	}
	if n := m.c.counts.messagesIn.Load() + m.c.counts.messagesOut.Load(); n != m.messages {
		m.messages, m.ticks = n, 0
		return true
	}
	m.ticks++
	return m.ticks < int(bufferIdle/trimInterval) || !m.discardPagesLocked()
}

// discardPagesLocked frees the pages of the control buffers. The provider frees the pages of
// posted receives. It returns false if a message is being sent. Precondition: the lock of
// the sender is held.
func (m *trimmer) discardPagesLocked() bool {
	if !m.tx.discardPagesLocked() {
		return false
	}
	in := &m.rx.input
	if in.items.len() == 0 && in.fetch.isIdle() && in.views == 0 {
		host.DiscardPages(in.fetch.spare)
	}
	m.tx.postDelayedLocked() // so that every receive is posted
	m.tx.commitLocked()
	m.c.sock.TrimIdle()
	m.rx.usage, m.tx.usage = trimUsage{}, trimUsage{}
	return true
}

// discardPagesLocked frees the pages of the send buffers, except the buffer of a draft. It
// returns false if another buffer is in use.
func (o *sender) discardPagesLocked() bool {
	switch {
	case o.drafted == nil && len(o.free) == len(o.slots):
		host.DiscardPages(o.area)
	case o.drafted != nil && len(o.free) == len(o.slots)-1:
		at := o.drafted.sge[0].Offset
		host.DiscardPages(o.area[:at])
		host.DiscardPages(o.area[at+len(o.drafted.buf):])
	default:
		return false
	}
	return true
}
