//go:build linux

package shm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// ending is the reason for a connection's end, and the way it ends.
type ending struct {
	err     error
	state   uint64      // Segment.State, for the peer
	receive rdma.Status // of the receive in progress; 0 means StatusCanceled
	reading rdma.Status // of the first unanswered read; 0 means StatusCanceled
}

// The values of Segment.State. The low half is stateOrderly or stateFailed. With
// stateFailed the high half is the rdma.Status.
const (
	stateOrderly = 1
	stateFailed  = 2
)

// Errors of a connection.
var (
	errFault     = errors.New("the peer's memory is gone")
	errPeerEnded = errors.New("the peer ended the connection")
	errPeerDied  = errors.New("the peer is gone")
	errAbandoned = errors.New("the connection ended during a read of its socket")
)

// conn is an established connection. One goroutine (run) sleeps on the socket, serves the
// connection while no other goroutine polls it, and ends it.
type conn struct {
	a        *adapter
	qp       *queuePair
	nc       *net.UnixConn
	raw      syscall.RawConn
	own      *ring.Segment
	peer     *ring.Segment
	peerName string
	peerUID  uint32
	limits   rdma.ReadLimits // of the reads in progress

	ending   atomic.Pointer[ending] // set once
	onEnd    func(error)            // closes Done of the connector
	reading  atomic.Int32           // whether run reads the socket: outside, inside or abandoned
	finished chan struct{}          // closed when the socket is closed, or its close takes too long
	grace    *time.Timer            // runs abandonRead after the beginning of the end
	peerGone atomic.Bool            // the peer no longer copies into this side's memory
	wg       sync.WaitGroup         // goroutines that may wait for files

	notices noticeReader // used by run
	waker   waker
	sleeper sleeper

	rxMu     sync.Mutex
	rx       receiver
	rxClosed bool // the segments are about to be unmapped

	tx sender

	exports    exports
	mappings   mappings
	references references
}

// The values of conn.reading.
const (
	outside   = 0
	inside    = 1
	abandoned = 2 // another goroutine ends the connection, because the read goes on
)

// newConn makes the connection of a queue pair after its start-up.
func newConn(a *adapter, qp *queuePair, nc *net.UnixConn, uid uint32, own, peer *ring.Segment, b *ring.Doorbell, limits rdma.ReadLimits, onEnd func(error)) (*conn, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{
		a: a, qp: qp, nc: nc, raw: raw, own: own, peer: peer, limits: limits, onEnd: onEnd,
		peerName: nameOf(nc.RemoteAddr()), peerUID: uid,
		finished: make(chan struct{}),
	}
	c.init(b)
	return c, nil
}

// init makes the components of a connection; its segments are set. d is its doorbell.
func (c *conn) init(d *ring.Doorbell) {
	c.grace = time.AfterFunc(time.Hour, c.abandonRead)
	c.grace.Stop()
	c.notices.init()
	c.waker.init(c.own, c.peer, c.raw, d)
	c.sleeper.init(c.own, c.peer, d, c.a.p.cfg.BlockingWait, c, c.waker.prediction.slept)
	c.rx.init(c)
	c.tx.init(c)
	c.exports.init(c)
	c.mappings.init(c.own, c.peer, c.a.p.cfg.MaxPeerMemory, &c.a.p.mapped)
	c.references.init(c.own, &c.mappings, c.peerName, c.fail)
}

// end begins the end of the connection. Only the first call has an effect and returns true.
func (c *conn) end(e *ending) bool {
	if !c.ending.CompareAndSwap(nil, e) {
		return false
	}
	c.grace.Reset(callGrace)
	c.nudge()
	return true
}

// abandonRead ends the connection in place of run, if run is in a read of the socket that does
// not end: the kernel waits there for a descriptor of the peer.
func (c *conn) abandonRead() {
	f := &c.a.p.foreign
	f.enter(c.peerUID)
	if c.reading.CompareAndSwap(inside, abandoned) {
		c.finish()
	} else {
		f.leave(c.peerUID)
	}
}

// nudge wakes run.
func (c *conn) nudge() { _ = c.nc.SetReadDeadline(softrdma.LongAgo) }

// Finished is closed when the connection has ended and its socket is closed.
func (c *conn) Finished() <-chan struct{} { return c.finished }

// Disconnect begins an orderly end.
func (c *conn) Disconnect() bool {
	return c.end(&ending{err: opError("connection", c.peerName, rdma.StatusConnectionInvalid, net.ErrClosed), state: stateOrderly})
}

// fail ends the connection because of an error.
func (c *conn) fail(err error) { c.end(c.endingFor(err)) }

// sleepers returns the number of Wait calls that only run can serve.
func (c *conn) sleepers() int { return c.qp.Sleepers() }

// run serves the connection until it ends, and then frees its resources.
func (c *conn) run() {
	err := c.serve()
	if errors.Is(err, errAbandoned) {
		c.a.p.foreign.leave(c.peerUID)
		return
	}
	c.end(c.endingFor(err))
	c.grace.Stop() // it would keep the memory of c for its time
	c.finish()
}

// finish frees the resources of a connection that ends.
func (c *conn) finish() {
	defer close(c.finished)
	e := c.ending.Load()
	c.onEnd(e.err)
	c.sleeper.close()
	c.qp.Disconnected()
	c.wg.Wait()
	c.references.close()
	c.rxMu.Lock()
	c.rxClosed = true
	c.rxMu.Unlock()
	c.exports.clear()
	c.own.State.Store(e.state)
	c.qp.flushAll(orCanceled(e.receive), orCanceled(e.reading))
	c.hangUp()
	c.exports.close()
	c.mappings.close()
	if !errors.Is(e.err, net.ErrClosed) {
		c.a.p.noise.Log(c.a.p.cfg.Logger, slog.LevelInfo, "shm: connection ended", "peer", c.peerName, "err", e.err)
	}
}

// orCanceled returns s, or StatusCanceled if s is StatusSuccess.
func orCanceled(s rdma.Status) rdma.Status {
	if s == rdma.StatusSuccess {
		return rdma.StatusCanceled
	}
	return s
}

// serve handles entries and messages, and sleeps when there are none.
func (c *conn) serve() error {
	for c.ending.Load() == nil {
		if err := c.drain(); err != nil {
			return err
		}
		c.qp.resume(0)
		c.sleeper.setRunSleeps(true)
		var err error
		if c.ending.Load() == nil && (c.sleeper.polled.Load() || !c.pending()) {
			err = c.readNotice()
		}
		if errors.Is(err, errAbandoned) {
			return err // the segments may be unmapped
		}
		c.sleeper.setRunSleeps(false)
		if err != nil {
			return err
		}
	}
	return nil
}

// pending reports whether there is a reason not to sleep. Precondition: the segments are
// mapped.
func (c *conn) pending() bool {
	return c.ending.Load() != nil || c.peer.Tail.Load() != c.own.Head.Load() && !c.rx.stalled.Load() || c.qp.canResume()
}

// drain takes all entries out of the ring.
func (c *conn) drain() error {
	for {
		if more, err := c.drainSome(); err != nil || !more {
			return err
		}
	}
}

// drainLocked takes up to budget entries. An invalid entry ends the connection before
// another goroutine can read it.
func (c *conn) drainLocked(budget int) error {
	err := c.rx.drain(budget)
	if err != nil {
		c.end(c.endingFor(err))
	}
	return err
}

// drainToLocked is drainLocked for a poller. It returns the number of results that the
// poller received.
func (c *conn) drainToLocked(budget int, to softrdma.Poller) (int, error) {
	c.rx.to, c.rx.handed = to, 0
	err := c.drainLocked(budget)
	c.rx.to = softrdma.Poller{}
	return c.rx.handed, err
}

// readNotice waits for one message from the socket. At the end of the stream it takes the
// remaining entries out of the ring: they are there even if the peer was killed.
func (c *conn) readNotice() error {
	c.reading.Store(inside)
	msg, fds, err := c.notices.read(c.raw, c.a.p.foreign.due(c.peerUID, 1))
	defer c.a.p.foreign.discard(c.peerUID, fds)
	if !c.reading.CompareAndSwap(inside, outside) {
		return errAbandoned
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		// nudge was called: the connection ends, or the ring has entries.
		_ = c.nc.SetReadDeadline(time.Time{})
		return nil
	case errors.Is(err, errNotice):
		return &violation{status: rdma.StatusRemoteError, err: err}
	case err == nil && len(msg) != 0:
		return c.handleNotice(msg, fds)
	}
	c.peerGone.Store(true)
	if derr := c.drain(); derr != nil {
		return derr
	}
	if err == nil {
		err = io.EOF
	}
	return err
}

// handleNotice carries out a message.
func (c *conn) handleNotice(msg []byte, fds []int) error {
	n, err := decodeNotice(msg)
	if err == nil && len(fds) > 0 && n.kind != noticeShare {
		err = errNotice
	}
	if err == nil {
		switch n.kind {
		case noticeShare:
			err = c.mappings.add(&n, fds)
		case noticeUnshare:
			c.mappings.drop(n.memory, &c.references)
		}
	}
	if err != nil {
		return &violation{status: rdma.StatusRemoteError, err: err}
	}
	return nil
}

// endingFor returns the ending for an error of serve. nil stands for the end of the
// stream.
func (c *conn) endingFor(err error) *ending {
	const op = "connection"
	var v *violation
	switch {
	case errors.As(err, &v):
		return &ending{
			err:   opError(op, c.peerName, v.status, v.err),
			state: stateFailed | uint64(v.status)<<32, receive: v.receive, reading: v.reading,
		}
	case err != nil && softrdma.IsHangup(err):
	case err != nil:
		return &ending{err: opError(op, c.peerName, rdma.StatusConnectionAborted, err)}
	}
	switch state := c.peer.State.Load(); uint32(state) {
	case stateOrderly:
		return &ending{err: opError(op, c.peerName, rdma.StatusConnectionInvalid, net.ErrClosed), state: stateOrderly}
	case stateFailed:
		status := remoteStatus(rdma.Status(state >> 32))
		return &ending{err: opError(op, c.peerName, status, errPeerEnded), reading: status}
	}
	return &ending{err: opError(op, c.peerName, rdma.StatusConnectionAborted, errPeerDied), reading: rdma.StatusIOTimeout}
}

// hangUp ends the stream to the peer, and waits up to Config.DrainTimeout until the peer
// has ended its stream. The peer then no longer writes this side's memory. hangUp does not wait
// for descriptors that the peer sent.
func (c *conn) hangUp() {
	if c.nc.CloseWrite() != nil {
		c.peerGone.Store(true)
	}
	f := &c.a.p.foreign
	if c.reading.Load() == abandoned {
		f.call(expired, c.peerUID, c.closeSockets, func() {})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.a.p.cfg.DrainTimeout)
	defer cancel()
	f.call(ctx, c.peerUID, func() { c.awaitEnd(); c.closeSockets() }, func() {})
}

// awaitEnd reads until the peer has ended its stream, or DrainTimeout.
func (c *conn) awaitEnd() {
	end := time.Now().Add(c.a.p.cfg.DrainTimeout)
	_ = c.nc.SetReadDeadline(end)
	for !c.peerGone.Load() {
		msg, _, err := c.notices.read(c.raw, 0)
		switch {
		case err == nil && len(msg) != 0:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			c.peerGone.Store(true)
		case time.Now().After(end):
			return
		default:
			_ = c.nc.SetReadDeadline(end) // a late poller had set another deadline
		}
	}
}

// closeSockets closes the socket and the doorbell.
func (c *conn) closeSockets() {
	_ = c.nc.Close()
	c.sleeper.doorbell.Close()
}
