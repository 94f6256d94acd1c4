package stream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// connection is the state that the components of one stream share: the socket, the
// configuration, the failure, the progress with the waiters of the calls, and the counters.
// Safe for concurrent use, except the fields whose comments name a time or a lock.
type connection struct {
	sock     socket
	cfg      Config
	progress progress
	counts   counts

	bulkIn, bulkOut bulkRun // stream data received, sent

	readWait, writeWait, urgentWait, closeWait waiter

	failed     atomic.Pointer[error] // why the stream has failed
	over       chan struct{}         // closed when the stream has failed or is closed
	ending     sync.Once             // closes over
	closing    atomic.Bool           // Close was called
	peerClosed atomic.Bool           // the peer has closed and reads no more
	dead       atomic.Bool           // completions are ignored; set with receiver.mu held

	trimTimer *time.Timer // runs trimmer.run
	pageable  bool        // the provider lets pages of control buffers be given back

	// The handshake sets the following before Start returns; they do not change after that.
	peer   Negotiation
	copies bool // large data is offered as a copy in staging memory, which the peer reaches faster
	depth  int  // fetches that may be in flight at a time
}

// init looks up the extension functions of the socket, and prepares the waiters.
//
// Errors: the errors of the look-up.
func (c *connection) init(sock *verbs.Socket, cfg *Config) error {
	if err := c.sock.init(sock); err != nil {
		return err
	}
	c.cfg = cfg.withDefaults(sock.Options())
	c.over = make(chan struct{})
	c.pageable = c.hasCap(rdma.CapPageable)
	for _, w := range c.waiters() {
		w.init()
	}
	return nil
}

// waiters returns the waiters of all calls.
func (c *connection) waiters() []*waiter {
	return []*waiter{&c.readWait, &c.writeWait, &c.urgentWait, &c.closeWait}
}

// hasCap reports whether the adapter has a capability.
func (c *connection) hasCap(caps rdma.Caps) bool { return c.sock.Service().Info().Caps.Has(caps) }

// canRead reports whether this side fetches by RDMA Read.
func (c *connection) canRead() bool { return c.sock.canRead() && !c.cfg.NoRead }

// setPeer takes the announcement of the peer.
func (c *connection) setPeer(peer Negotiation) {
	direct := c.hasCap(rdma.CapDirectAlloc)
	c.peer = peer
	c.copies = peer.CanRead && direct
	c.depth = 1 // a read is a copy in memory, or the peer writes
	if c.canRead() && !direct {
		// Room is left for a message and an RDMA Write.
		c.depth = min(maxDirect, max(c.sock.Options().SendDepth-2, 1))
	}
}

// signal wakes a waiter.
func (c *connection) signal(w *waiter) { c.progress.signal(w) }

// wait waits until w is signaled. Precondition: the caller holds no lock except the lock of
// its kind of call.
func (c *connection) wait(w *waiter) { c.progress.wait(w) }

// fail ends the stream with an error, which must not be nil. Only the first error counts.
func (c *connection) fail(err error) {
	c.failed.CompareAndSwap(nil, &err)
	c.ending.Do(func() { close(c.over) })
	c.wakeAll()
}

// wakeAll wakes every waiter, and the goroutine of the stream.
func (c *connection) wakeAll() {
	for _, w := range c.waiters() {
		c.signal(w)
	}
	c.progress.WakePoller()
}

// failBelow fails the stream with an error of the socket.
func (c *connection) failBelow(err error) { c.fail(c.errorBelow(err)) }

// errorBelow returns the error of a stream whose RDMA connection ended with err.
func (c *connection) errorBelow(err error) error {
	if cause := c.sock.Err(); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: %w", ErrReset, err)
}

// lost fails the stream because a request ended with err. The failure is ErrPeerClosed if
// the peer has closed, and errorBelow otherwise.
func (c *connection) lost(err error) {
	if c.peerClosed.Load() {
		c.fail(ErrPeerClosed)
		return
	}
	c.failBelow(err)
}

// failure returns the error that the stream has failed with, or nil.
func (c *connection) failure() error {
	if p := c.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// hangUp disconnects a stream that has failed, so that the peer sees it and pending requests
// end.
func (c *connection) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Linger)
	defer cancel()
	_ = c.sock.Disconnect(ctx) // fails if the connection has ended
}

// trimLater starts the timer of the trimmer.
func (c *connection) trimLater() { c.trimTimer.Reset(trimInterval) }
