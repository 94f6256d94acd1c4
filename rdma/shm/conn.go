//go:build linux

package shm

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lwio/internal/host"
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// ending says why and how a connection ends.
type ending struct {
	err     error
	state   uint64      // for the peer
	receive rdma.Status // of the receive in progress; StatusCanceled if 0
	reading rdma.Status // of the first read that is not answered; likewise
}

// How a connection was ended, as its segment tells the peer: the low half says
// stateOrderly or stateFailed, the high half of the latter has a status.
const (
	stateOrderly = 1
	stateFailed  = 2
)

// violation is what the peer did wrong.
type violation struct {
	status  rdma.Status
	receive rdma.Status
	reading rdma.Status
	err     error
}

func (v *violation) Error() string { return v.err.Error() }
func (v *violation) Unwrap() error { return v.err }

// Errors of a connection.
var (
	errFault     = errors.New("the peer's memory is gone")
	errPeerEnded = errors.New("the peer ended the connection")
	errPeerDied  = errors.New("the peer is gone")
)

// conn is a connection in full operation. One goroutine (run) sleeps on the
// socket, serves what nobody polls, and ends the connection.
type conn struct {
	a        *adapter
	qp       *queuePair
	nc       *net.UnixConn
	raw      syscall.RawConn
	own      *ring.Segment
	peer     *ring.Segment
	peerName string
	limits   rdma.ReadLimits // in progress

	ending   atomic.Pointer[ending] // set once
	onEnd    func(error)            // closes Done of the connector
	finished chan struct{}          // closed when all is over and the socket closed
	gone     atomic.Bool            // the peer does not write directly any more
	wg       sync.WaitGroup         // goroutines that read files

	notices noticeReader // of run
	waker   waker
	woken   atomic.Uint64 // the sleep of the peer that it was last woken from
	rest    rest

	rxMu     sync.Mutex
	rx       receiver
	rxClosed bool // the segments are unmapped

	tx sender

	share   shares
	targets targets
	loans   loans
}

// newConn makes the connection of a queue pair, whose start-up is over.
func newConn(a *adapter, qp *queuePair, nc *net.UnixConn, own, peer *ring.Segment, b *ring.Doorbell, limits rdma.ReadLimits, onEnd func(error)) (*conn, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{
		a: a, qp: qp, nc: nc, raw: raw, own: own, peer: peer, limits: limits, onEnd: onEnd,
		peerName: nameOf(nc.RemoteAddr()),
		finished: make(chan struct{}),
	}
	c.notices.init()
	c.waker.init(b)
	c.rest.init(c, b)
	c.rx.init(c)
	c.tx.init(c)
	c.share.init()
	c.targets.init(c.a.p.cfg.MaxPeerMemory, &c.a.p.mapped)
	c.loans.init()
	return c, nil
}

// end begins the end of the connection; only the first call counts, and is true.
func (c *conn) end(e *ending) bool {
	if !c.ending.CompareAndSwap(nil, e) {
		return false
	}
	c.nudge()
	return true
}

// nudge wakes run.
func (c *conn) nudge() { _ = c.nc.SetReadDeadline(longAgo) }

// Finished is closed when all is over and the socket closed.
func (c *conn) Finished() <-chan struct{} { return c.finished }

// Disconnect ends the connection in good order.
func (c *conn) Disconnect() bool {
	return c.end(&ending{err: opError("connection", c.peerName, rdma.StatusConnectionInvalid, net.ErrClosed), state: stateOrderly})
}

// wake wakes the peer, for what it was given, if it sleeps.
func (c *conn) wake() {
	s := c.peer.Sleep.Load()
	c.rest.prompt.answered(s)
	c.ring(s)
}

// ring wakes the peer if s, the word in its segment, says that it sleeps. Once is enough
// for each sleep, also if there was nothing to see then: before it sleeps again the peer
// writes another word, and then looks. Who gives it something does that first, and then
// reads the word. Both write before they read, so that the peer sees what it was given,
// or the giver that the word is another.
func (c *conn) ring(s uint64) {
	if s&ring.SleepMask == ring.Awake || c.woken.Swap(s) == s {
		return
	}
	switch s & ring.SleepMask {
	case ring.SleepSocket:
		_ = c.raw.Control(c.waker.fn)
	case ring.SleepDoorbell:
		c.waker.doorbell()
	case ring.SleepFutex:
		ring.RaceRelease()
		c.own.Futex.Add(1)
		ring.FutexWake(&c.own.Futex)
	}
}

// wakeProducer wakes a peer that waits for room, after some was made.
func (c *conn) wakeProducer() {
	if c.peer.Waiting.Load() != 0 {
		c.wake()
	}
}

// run serves the connection until it ends, and then ends all of it.
func (c *conn) run() {
	defer close(c.finished)
	c.end(c.endingFor(c.serve()))
	e := c.ending.Load()
	c.onEnd(e.err)
	c.rest.close()
	c.qp.Disconnected()
	c.wg.Wait()
	c.loans.close(&c.targets)
	c.rxMu.Lock()
	c.rxClosed = true
	c.rxMu.Unlock()
	c.share.clear(c.own)
	c.own.State.Store(e.state)
	c.qp.flushAll(orCanceled(e.receive), orCanceled(e.reading))
	c.hangUp()
	c.share.close(c)
	c.rest.bell.Close()
	c.targets.close()
	if !errors.Is(e.err, net.ErrClosed) {
		c.a.p.cfg.Logger.Info("shm: connection ended", "peer", c.peerName, "err", e.err)
	}
}

// orCanceled is the status, or StatusCanceled if there is none.
func orCanceled(s rdma.Status) rdma.Status {
	if s == rdma.StatusSuccess {
		return rdma.StatusCanceled
	}
	return s
}

// serve takes what comes, and sleeps when nothing does.
func (c *conn) serve() error {
	for c.ending.Load() == nil {
		if err := c.drain(); err != nil {
			return err
		}
		c.qp.resume(0)
		c.rest.socket(true)
		var err error
		if c.ending.Load() == nil && (c.rest.attended.Load() || !c.pending()) {
			err = c.readNotice(true)
		}
		c.rest.socket(false)
		if err != nil {
			return err
		}
	}
	return nil
}

// pending tells whether there is a reason not to sleep. Only who knows that the
// segments are mapped may ask.
func (c *conn) pending() bool {
	return c.ending.Load() != nil || c.peer.Tail.Load() != c.own.Head.Load() && !c.rx.stalled.Load() || c.qp.canResume()
}

// drain takes everything out of the ring.
func (c *conn) drain() error {
	for {
		if more, err := c.drainSome(); err != nil || !more {
			return err
		}
	}
}

// drainLocked takes up to budget entries. What is wrong with one of them ends the
// connection before anybody can look at the same entry again.
func (c *conn) drainLocked(budget int) error {
	err := c.rx.drain(budget)
	if err != nil {
		c.end(c.endingFor(err))
	}
	return err
}

// drainToLocked is drainLocked for who polls, and tells how many results that one has got.
func (c *conn) drainToLocked(budget int, to softrdma.Poller) (int, error) {
	c.rx.to, c.rx.handed = to, 0
	err := c.drainLocked(budget)
	c.rx.to = softrdma.Poller{}
	return c.rx.handed, err
}

// readNotice takes one message from the socket. At the end of the stream it takes
// what is left in the ring, which a peer leaves even if it is killed.
func (c *conn) readNotice(wait bool) error {
	msg, fds, err := c.notices.read(c.raw, wait)
	defer ring.CloseAll(fds)
	switch {
	case errors.Is(err, errAgain):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Somebody wants run to look: at the end, or into the ring.
		_ = c.nc.SetReadDeadline(time.Time{})
		return nil
	case err == nil && len(msg) != 0:
		return c.handleNotice(msg, fds)
	}
	c.gone.Store(true)
	if derr := c.drain(); derr != nil {
		return derr
	}
	if err == nil {
		err = io.EOF
	}
	return err
}

// handleNotice does what a message asks for.
func (c *conn) handleNotice(msg []byte, fds []int) error {
	n, err := decodeNotice(msg)
	if err == nil && len(fds) > 0 && (n.kind != noticeShare || len(fds) > 1) {
		err = errNotice
	}
	if err == nil {
		switch n.kind {
		case noticeShare:
			err = c.targets.add(&n, fds, c.own)
		case noticeUnshare:
			c.targets.drop(n.memory, c.own, &c.loans)
		}
	}
	if err != nil {
		return &violation{status: rdma.StatusRemoteError, err: err}
	}
	return nil
}

// endingFor tells what the error means that serve ended with.
func (c *conn) endingFor(err error) *ending {
	const op = "connection"
	var v *violation
	switch {
	case errors.As(err, &v):
		return &ending{
			err:   opError(op, c.peerName, v.status, v.err),
			state: stateFailed | uint64(v.status)<<32, receive: v.receive, reading: v.reading,
		}
	case err != nil && isHangup(err):
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

// remoteStatus is what a status of the peer means here.
func remoteStatus(s rdma.Status) rdma.Status {
	if s == rdma.StatusAccessViolation {
		return s
	}
	return rdma.StatusRemoteError
}

// hangUp tells the peer that it is over and waits, for a while, for it to say the
// same: then it has stopped to write this side's memory.
func (c *conn) hangUp() {
	defer c.nc.Close()
	if c.nc.CloseWrite() != nil {
		c.gone.Store(true)
	}
	end := time.Now().Add(c.a.p.cfg.DrainTimeout)
	_ = c.nc.SetReadDeadline(end)
	for !c.gone.Load() {
		msg, fds, err := c.notices.read(c.raw, true)
		ring.CloseAll(fds)
		switch {
		case err == nil && len(msg) != 0:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			c.gone.Store(true)
		case time.Now().After(end):
			return
		default:
			_ = c.nc.SetReadDeadline(end) // a late poller had set another
		}
	}
}

// recovered makes an error of a fault in memory that the peer can take away, as
// it might if a seal did not hold; any other panic goes on. It is called by a
// deferred function with what recover returned.
func recovered(old bool, x any) error {
	if !host.CaughtFault(old, x) {
		return nil
	}
	return &violation{status: rdma.StatusRemoteError, err: errFault}
}
