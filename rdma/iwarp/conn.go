package iwarp

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// ending is the reason for a connection's end, and the way it ends.
type ending struct {
	err     error
	abort   bool             // do not wait for the peer
	term    *frame.Terminate // to send
	receive rdma.Status      // of the receive in progress; 0 means StatusCanceled
	partly  rdma.Status      // of the partly written request; 0 means StatusCanceled
	reading rdma.Status      // of the first unanswered read; 0 means StatusCanceled
}

// conn is a connection in full operation. On the passive side it may still wait for the
// peer's first frame. One goroutine (run) reads, and ends the connection.
//
// Source: [RFC 5040 §5], [RFC 5044 §7]
type conn struct {
	a   *adapter
	qp  *queuePair
	nc  net.Conn
	raw syscall.RawConn // nil if the socket can only block
	// fd is the descriptor of raw. It is closed after the receiver has ended and the last
	// batch is written: code that reads, or writes a batch, uses it without raw.
	fd   int
	crc  bool
	peer string
	// active is set if this side requested the connection. Only the active side may send
	// first.
	active bool
	// limits bound the reads in progress that this side answers and begins.
	limits rdma.ReadLimits

	ending   atomic.Pointer[ending] // set once
	onEnd    func(error)            // closes Done of the connector
	ended    chan struct{}          // closed at the end, before the flush
	ready    chan struct{}          // closed when the first frame arrives
	finished chan struct{}          // closed after the flush, with the socket closed

	tx sender
	rx receiver
	wg sync.WaitGroup // writing goroutines

	sleeper   sleeper
	singleCPU bool // GOMAXPROCS is 1: pollers must yield

	deadlineMu  sync.Mutex // of the read deadline
	woken       bool       // the deadline makes the reader find that the connection ends
	interrupted bool       // the deadline makes the reader check its state
	readLimit   time.Time  // see limitRead
}

// newConn makes the connection of a queue pair over a TCP connection after its start-up.
// It takes ownership of nc: use conn.nc afterwards.
func newConn(a *adapter, qp *queuePair, nc net.Conn, crc bool, limits rdma.ReadLimits, onEnd func(error)) *conn {
	nc, raw := adopt(nc)
	c := &conn{
		a: a, qp: qp, nc: nc, raw: raw, crc: crc, limits: limits, onEnd: onEnd,
		peer:     nc.RemoteAddr().String(),
		ended:    make(chan struct{}),
		ready:    make(chan struct{}),
		finished: make(chan struct{}),
	}
	limit := a.p.cfg.MaxULPDU
	if a.p.cfg.SegmentAtMSS && c.raw != nil {
		if mss := segmentSize(c.raw); mss > 0 {
			limit = min(limit, max(frame.ULPDUForMSS(mss), frame.MinULPDU))
		}
	}
	if c.raw != nil {
		_ = c.raw.Control(func(fd uintptr) { c.fd = int(fd) }) // raw is open, so Control does not fail
	}
	c.tx.init(c, limit)
	c.rx.init(c)
	c.sleeper.init()
	c.singleCPU = runtime.GOMAXPROCS(0) == 1
	return c
}

// end begins the end of the connection. Only the first call has an effect and returns
// true.
func (c *conn) end(e *ending) bool {
	if !c.ending.CompareAndSwap(nil, e) {
		return false
	}
	c.deadlineMu.Lock()
	c.woken = true
	_ = c.nc.SetReadDeadline(softrdma.LongAgo)
	c.deadlineMu.Unlock()
	c.claim(claimEnd)
	c.onEnd(e.err)
	close(c.ended)
	return true
}

// limitRead gives the reader a time limit to find the reason of a failed write.
func (c *conn) limitRead(d time.Duration) {
	c.deadlineMu.Lock()
	c.readLimit = time.Now().Add(d)
	if !c.woken {
		_ = c.nc.SetReadDeadline(c.readLimit)
	}
	c.deadlineMu.Unlock()
	c.claim(claimFail)
}

// Finished is closed after the end, when the socket is closed.
func (c *conn) Finished() <-chan struct{} { return c.finished }

// Disconnect begins an orderly end.
func (c *conn) Disconnect() bool {
	return c.end(&ending{err: opError("connection", c.peer, rdma.StatusConnectionInvalid, net.ErrClosed)})
}

// opened lets this side send. The reader calls it after the peer's first valid frame.
//
// Source: [RFC 5044 §7.1.2 rule 4]
func (c *conn) opened() {
	qp := c.qp
	qp.Initiator.Lock()
	if qp.State == softrdma.PairReserved {
		qp.State = softrdma.PairConnected
	}
	qp.held = false
	start := c.tx.wakeLocked()
	qp.Initiator.Unlock()
	close(c.ready)
	if start {
		c.tx.pump()
	}
}

// run reads until the connection ends, and then ends all parts of it.
func (c *conn) run() {
	defer close(c.finished)
	if c.raw != nil {
		c.qp.driven.Store(c)
	}
	c.end(c.endingFor(c.rx.loop()))
	<-c.ended
	c.becomeSleeper()
	c.rx.close()
	e := c.ending.Load()
	c.tx.stop(e.abort)
	c.wg.Wait()
	for _, status := range []*rdma.Status{&e.receive, &e.partly, &e.reading} {
		if *status == rdma.StatusSuccess {
			*status = rdma.StatusCanceled
		}
	}
	c.qp.Initiator.Lock()
	connected := c.qp.State >= softrdma.PairConnected
	c.qp.Initiator.Unlock()
	if connected {
		c.qp.flushAll(e, c.tx.begun())
	} else {
		c.qp.Unreserve()
	}
	c.shutdown(e)
	if !errors.Is(e.err, net.ErrClosed) {
		c.a.p.noise.Log(c.a.p.cfg.Logger, slog.LevelInfo, "iwarp: connection ended", "peer", c.peer, "err", e.err)
	}
}

// endingFor returns the ending for the error of the reader.
func (c *conn) endingFor(err error) *ending {
	var v *violation
	var t *TerminateError
	const op = "connection"
	switch {
	case errors.As(err, &v):
		return v.ending(c)
	case errors.As(err, &t):
		status := faultStatus(frame.Fault{Layer: t.Layer, Kind: t.Type, Code: t.Code})
		e := &ending{err: opError(op, c.peer, status, t), partly: status}
		if t.read {
			e.reading = status
		}
		return e
	case errors.Is(err, io.EOF):
		return &ending{err: opError(op, c.peer, rdma.StatusConnectionInvalid, net.ErrClosed), abort: true}
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Only a failed write sets a deadline before the end.
		return &ending{err: opError(op, c.peer, rdma.StatusConnectionAborted, c.tx.failure()), abort: true, partly: rdma.StatusIOTimeout, reading: rdma.StatusIOTimeout}
	}
	return &ending{err: opError(op, c.peer, rdma.StatusConnectionAborted, err), abort: true, partly: rdma.StatusIOTimeout, reading: rdma.StatusIOTimeout}
}

// endingForData returns the ending for lost data of a request or an answer. For any other
// error it returns nil.
func (c *conn) endingForData(err error) *ending {
	var v *violation
	var f *fileError
	status := rdma.StatusAccessViolation
	switch {
	case errors.As(err, &v):
		return v.ending(c)
	case errors.As(err, &f):
		status = rdma.StatusDataError
	case !errors.Is(err, errRegionClosed):
		return nil
	}
	return &ending{
		err:    opError("connection", c.peer, status, err),
		term:   &frame.Terminate{Fault: frame.FaultLocal},
		partly: status,
	}
}

// shutdown sends a Terminate, if there is one and the peer can understand it, and
// half-closes. Then it waits until the peer has closed too, so that no reset destroys the
// last sent data. DrainTimeout bounds these steps together.
//
// Source: [RFC 5040 §5.4], [RFC 5040 §6.2], [RFC 5044 §7.2]
func (c *conn) shutdown(e *ending) {
	defer c.nc.Close()
	if e.abort {
		return
	}
	_ = c.nc.SetDeadline(time.Now().Add(c.a.p.cfg.DrainTimeout))
	if e.term != nil && c.tx.clean() && c.mayTerminate(e.term) {
		c.sendTerminate(e.term)
	}
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.rx.discard()
}

// mayTerminate reports whether the peer expects frames yet. The passive side sends none
// before it has received a valid frame. A frame counts as valid even if its content
// breaks a rule of a layer above MPA.
//
// Source: [RFC 5044 §7.1.2 rule 4]
func (c *conn) mayTerminate(t *frame.Terminate) bool {
	return c.active || c.rx.started || t.Fault.Layer != frame.LayerLLP
}

func (c *conn) sendTerminate(t *frame.Terminate) {
	if _, err := c.nc.Write(terminateFrame(t, c.crc)); err != nil {
		c.a.p.cfg.Logger.Debug("iwarp: terminate not sent", "peer", c.peer, "err", err)
	}
}

// terminateFrame returns the frame of a Terminate.
func terminateFrame(t *frame.Terminate, crc bool) []byte {
	h := frame.UntaggedSegment(frame.OpTerminate, frame.QueueTerminate, 1, 0, true)
	return frame.AppendFPDU(nil, t.AppendTo(h.AppendTo(nil)), crc)
}
