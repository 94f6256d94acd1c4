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

// conn is one RDMA connection of a client. It is composed of parts that own their state:
// the receive loop polls completions and hands messages to their handlers, reads and the
// workers move data, and the send queue posts the answers.
//
// Source: [LWIO §I/O Processing] [OP-109]
type conn struct {
	engine *engine
	fabric *fabric
	log    *slog.Logger

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}  // closed when the connection has given everything back
	jobs   sync.WaitGroup // operations that wait for memory or a worker, and the timer of held answers

	peer      peer
	place     place
	connector rdma.Connector
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	auth      authenticator
	traffic   connTraffic
	poolBytes int // bytes of the buffer pool that the connection holds; guarded by bufferPool.mu

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
	files   fileTable
	send    sendQueue
}

// peer is the client's end of a connection.
type peer struct {
	name string     // the address as text
	host netip.Addr // the host of the address, if it has one
}

// newConn returns a connection for a request that arrived on a fabric. Its context ends with
// the engine's.
func newConn(e *engine, f *fabric, connector rdma.Connector, log *slog.Logger, p peer) *conn {
	c := &conn{engine: e, fabric: f, log: log, connector: connector, peer: p, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(e.ctx)
	c.init()
	return c
}

// init makes the parts of a connection that has done nothing yet.
func (c *conn) init() {
	f := c.fabric
	c.loop.c, c.reads.c, c.auth.c = c, c, c
	c.receives = newReceiveBuffers(f)
	c.ops.most = f.layout.most
	c.replay.most = f.layout.slots
	c.files.limit = c.engine.limits.FilesPerConnection
	c.send.init(f, &c.receives, &c.engine.count, &c.jobs, c.cut)
	c.notice, _ = c.ops.take(c) // the first
	c.notice.notice = true
}

// setQueues tells the parts of the queues.
func (c *conn) setQueues(cq rdma.CompletionQueue, qp rdma.QueuePair) {
	c.cq, c.loop.cq = cq, cq
	c.qp, c.send.qp = qp, qp
}

// open creates the adapter's resources of the connection and posts the receive for the AUTH,
// and those ahead. On failure everything is closed again.
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

// serve accepts the connection, runs its loop, and cleans up. No private data goes with the
// acceptance, and none is expected.
//
// Source: [OP-102]
func (c *conn) serve() {
	defer close(c.done)
	c.auth.timer = time.AfterFunc(c.engine.limits.AuthTimeout, func() { c.cut(errAuthTimeout) })
	err := c.open()
	if err == nil {
		err = c.connector.Accept(c.ctx, c.qp, rdma.ReadLimits{}, nil)
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

// cut ends the connection from any goroutine; its loop cleans up.
func (c *conn) cut(cause error) { c.cancel(cause) }

// cause returns why the connection was cut. If that was a post after its end, it returns why
// it had ended.
func (c *conn) cause() error {
	err := context.Cause(c.ctx)
	if errors.Is(err, rdma.StatusConnectionInvalid) {
		return c.ended(err)
	}
	return err
}

// teardown ends the connection and gives back all that it held. The memory of the client is
// not touched once the queue pair is closed.
//
// Source: [OP-94f]
func (c *conn) teardown(err error) {
	c.cut(err)
	err = c.cause()
	c.report(err)
	c.send.kill()
	for _, f := range c.files.removeAll() {
		f.unhook()
		f.unref()
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
	c.keepReplay()
	c.closeResources()
	c.engine.forget(c)
}

// recall takes o out of the queue that it waits in and reports whether it waited.
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
	case errors.Is(cause, errClientLeft):
		c.log.Info("lwio: client left")
	case isViolation(cause):
		c.engine.count.cut.Add(1)
		c.engine.noise.Warn(c.log, "lwio: connection cut", "cause", cause)
	default:
		c.engine.count.lost.Add(1)
		c.log.Info("lwio: connection lost", "cause", cause)
	}
}

// startDraining lets the connection end as soon as nothing is in flight.
func (c *conn) startDraining() {
	c.send.startDraining()
	if c.send.drained() {
		c.cut(errShutdown)
	}
}
