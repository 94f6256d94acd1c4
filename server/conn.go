package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"lwio/rdma"
)

// conn is one RDMA connection of a client. Its parts own their state. The receive loop polls
// completions and passes messages to their handlers. The reader and the workers move data. The
// send queue posts the answers.
//
// Source: [LWIO §I/O Processing] [OP-109]
type conn struct {
	engine *engine
	fabric *fabric
	log    *slog.Logger

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the connection has given everything back
	// jobs are the operations that wait for memory or a worker, the timer of held answers, and
	// the file sources that are being closed.
	jobs sync.WaitGroup

	peer      peer
	entry     connEntry
	connector rdma.Connector
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	auth      authenticator
	sealing   sealing
	traffic   connTraffic
	poolBytes int        // bytes of the buffer pool that the connection holds; guarded by bufferPool.mu
	poolUser  *userUsage // the bytes of its user, once it has passed AUTH

	// Owned by the goroutine of the receive loop.
	loop     receiveLoop
	receives receiveBuffers
	ops      opTable
	notice   *op // announces a change of the credits
	reads    reader
	ready    answerBatch
	load     clientLoad
	tally    tally

	// Safe for concurrent use, each with a lock of its own.
	credits creditState
	replay  replayCache
	files   registrations
	send    sendQueue
}

// peer names the client of a connection.
type peer struct {
	name string       // address as text
	host netip.Prefix // of the address, for limits
}

// newConn returns a connection for a request that arrived on a fabric. Its context ends with
// the engine's.
func newConn(e *engine, f *fabric, connector rdma.Connector, log *slog.Logger, p peer) *conn {
	c := &conn{engine: e, fabric: f, log: log, connector: connector, peer: p, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(e.ctx)
	c.init()
	return c
}

// init makes the parts of a new connection.
func (c *conn) init() {
	f := c.fabric
	c.auth.messages = f.layout.wire
	c.loop.c, c.reads.c, c.auth.c = c, c, c
	c.receives = newReceiveBuffers(f)
	c.ops.most = f.layout.most
	c.replay.most, c.credits.holder.weight = f.layout.credits, f.layout.weight
	c.files.c, c.files.limit = c, c.engine.limits.FilesPerConnection
	c.send.init(f, &c.receives, &c.engine.count, &c.jobs, c.cut)
	c.notice, _ = c.ops.take(c) // the first
	c.notice.notice = true
}

// setQueues gives the queues to the parts that use them.
func (c *conn) setQueues(cq rdma.CompletionQueue, qp rdma.QueuePair) {
	c.cq, c.loop.cq = cq, cq
	c.qp, c.send.qp = qp, qp
}

// open creates the adapter's resources of the connection and posts its first receives: one for the
// AUTH, and layout.ahead more. After an error no resource is open.
//
// Source: [OP-103] [OP-108]
func (c *conn) open() (err error) {
	y, a := &c.fabric.layout, c.fabric.adapter
	defer func() {
		if err != nil {
			c.closeResources()
		}
	}()
	if err := c.receives.open(c.ctx, a); err != nil {
		return err
	}
	cq, err := a.CreateCompletionQueue(y.receives + y.depth + 1)
	if err != nil {
		return err
	}
	c.setQueues(cq, nil)
	qp, err := a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: cq, InitiatorCQ: cq,
		ReceiveDepth: y.receives, InitiatorDepth: y.depth, MaxReceiveSGE: 2, MaxInitiatorSGE: 1,
		AcceptByReference: true,
	})
	if err != nil {
		return err
	}
	c.setQueues(cq, qp)
	return c.receives.post(qp, 1+y.ahead)
}

// serve accepts the connection, runs its loop, and cleans up. Private data of the client is ignored.
//
// Source: [OP-102]
func (c *conn) serve() {
	defer close(c.done)
	c.auth.timer = time.AfterFunc(c.engine.limits.AuthTimeout, func() { c.cut(errAuthTimeout) })
	err := c.open()
	if err == nil {
		err = c.connector.Accept(c.ctx, c.qp, rdma.ReadLimits{}, c.auth.privateData())
		if err == nil {
			c.log.Debug("lwio: connection accepted")
			err = c.loop.run()
			c.tally.empty(c.engine, c)
		}
	} else {
		c.connector.Reject(nil)
	}
	c.auth.timer.Stop()
	c.teardown(err)
}

// cut ends the connection. Any goroutine may call it; the receive loop cleans up.
func (c *conn) cut(cause error) { c.cancel(cause) }

// cause returns the cause of the cut. If a post failed because the connection had ended, it returns
// the cause of that end.
func (c *conn) cause() error {
	err := context.Cause(c.ctx)
	if errors.Is(err, rdma.StatusConnectionInvalid) {
		return c.ended(err)
	}
	return err
}

// teardown ends the connection and releases all its resources. After the close of the queue pair
// the server does not access memory of the client.
//
// Source: [OP-94f]
func (c *conn) teardown(err error) {
	c.cut(err)
	err = c.cause()
	c.report(err)
	c.send.kill()
	for _, f := range c.files.removeAll() {
		f.stopRevoke()
		f.release()
		c.engine.count.files.Add(-1)
	}
	if isOrderly(err) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c.connector.Disconnect(ctx)
		cancel()
	}
	c.connector.Close()
	if c.qp != nil {
		c.qp.Close()
	}
	for _, o := range c.ops.all {
		o.recall()
	}
	c.jobs.Wait()
	for _, o := range c.ops.all {
		if o.holds {
			o.file.release()
		}
		if o.block != none {
			c.fabric.buffers.give(o)
		}
	}
	c.jobs.Wait() // for the sources of these files
	c.keepReplay()
	c.closeResources()
	c.engine.forget(c)
}

// recall removes o from the queue in which it waits, and reports whether it waited.
func (o *op) recall() bool {
	if o.queue == nil || !o.queue.remove(o) && !o.c.fabric.buffers.remove(o) {
		return false
	}
	o.c.jobs.Done()
	return true
}

// closeResources closes the resources that open created.
func (c *conn) closeResources() {
	if c.qp != nil {
		c.qp.Close()
	}
	if c.cq != nil {
		c.cq.Close()
	}
	c.receives.close()
}

// report logs and counts the end of the connection.
func (c *conn) report(cause error) {
	switch {
	case isOrderly(cause):
		c.log.Debug("lwio: connection closed", "cause", cause)
	case errors.Is(cause, errClientLeft), errors.Is(cause, errLoggedOff) && !c.sealing.on():
		c.log.Info("lwio: client left")
	case isViolation(cause):
		c.engine.count.cut.Add(1)
		c.engine.noise.Warn(c.log, "lwio: connection cut", "cause", cause)
	case c.sealing.on():
		c.engine.count.lost.Add(1)
		c.engine.noise.Warn(c.log, "lwio: sealed connection lost", "cause", cause)
	case !c.auth.passed:
		c.engine.count.lost.Add(1)
		c.engine.noise.Log(c.log, slog.LevelInfo, "lwio: unauthenticated connection lost", "cause", cause)
	default:
		c.engine.count.lost.Add(1)
		c.log.Info("lwio: connection lost", "cause", cause)
	}
}

// startDraining makes the connection end as soon as no request is in flight.
func (c *conn) startDraining() {
	c.send.startDraining()
	if c.send.drained() {
		c.cut(errShutdown)
	}
}
