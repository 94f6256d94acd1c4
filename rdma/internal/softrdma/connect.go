package softrdma

import (
	"context"
	"errors"
	"net"

	"lwio/rdma"
)

var errForeignPair = errors.New("queue pair of another adapter")

// Connect requests a connection of qp and waits for the peer's answer.
//
// Source: [ND Connector.Connect]
func (c *Connector) Connect(ctx context.Context, qp rdma.QueuePair, remote rdma.Addr, limits rdma.ReadLimits, privateData []byte) error {
	const op = "connect"
	object := remote.String()
	pair := c.net.PairOf(qp)
	if pair == nil {
		return c.d.Error(op, object, rdma.StatusInvalidParameter, errForeignPair)
	}
	if err := c.net.Target(op, remote); err != nil {
		return err
	}
	switch {
	case len(privateData) > c.net.Info().MaxCallerData:
		return c.d.Error(op, object, rdma.StatusInvalidBufferSize, nil)
	case ctx.Err() != nil:
		return c.d.Canceled(ctx, op, object)
	}
	c.mu.Lock()
	if status := c.connectableLocked(); status != rdma.StatusSuccess {
		c.mu.Unlock()
		return c.d.Error(op, object, status, nil)
	}
	if err := pair.Reserve(op); err != nil {
		c.mu.Unlock()
		return err
	}
	local := c.local
	work := c.beginLocked(ctx, phaseConnecting)
	c.mu.Unlock()

	accepted, params, err := c.net.Dial(work, local, remote, limits, privateData)
	if err != nil {
		err = c.failure(ctx, work, op, object, c.net.Status(err), err)
		pair.Unreserve()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if params != nil {
		c.params = params
	}
	if err != nil {
		c.finishLocked(phaseIdle)
		return err
	}
	c.openLocked(accepted, pair)
	if c.finishLocked(phaseReplied) {
		return c.d.Error(op, object, rdma.StatusCanceled, net.ErrClosed)
	}
	return nil
}

// connectableLocked returns StatusSuccess if a Connect may begin.
func (c *Connector) connectableLocked() rdma.Status {
	switch {
	case c.closed:
		return rdma.StatusInvalidHandle
	case c.phase == phaseDead:
		return rdma.StatusInvalidDeviceState
	case c.phase != phaseIdle:
		return rdma.StatusConnectionActive
	}
	return rdma.StatusSuccess
}

// CompleteConnect begins the connection that the peer accepted.
//
// Source: [ND Connector.CompleteConnect]
func (c *Connector) CompleteConnect(ctx context.Context) error {
	const op = "complete connect"
	c.mu.Lock()
	if c.phase != phaseReplied {
		c.mu.Unlock()
		return c.d.Error(op, "", rdma.StatusConnectionInvalid, nil)
	}
	if ctx.Err() != nil {
		c.mu.Unlock()
		return c.d.Canceled(ctx, op, "")
	}
	accepted, pair, object := c.open.(Acceptance), c.pair, c.ends.Peer.String()
	work := c.beginLocked(ctx, phaseAccepting)
	c.mu.Unlock()

	conn, err := accepted.Complete(work, pair, c.end)
	if err != nil {
		status := c.net.Status(err)
		if status == rdma.StatusConnectionRefused {
			status = rdma.StatusConnectionAborted // an accepted connection is not refused
		}
		err = c.failure(ctx, work, op, object, status, err)
	}
	return c.settle(op, object, pair, conn, err)
}

// Accept answers the request and begins the connection.
//
// Source: [ND Connector.Accept]
func (c *Connector) Accept(ctx context.Context, qp rdma.QueuePair, limits rdma.ReadLimits, privateData []byte) error {
	const op = "accept"
	pair := c.net.PairOf(qp)
	switch {
	case pair == nil:
		return c.d.Error(op, "", rdma.StatusInvalidParameter, errForeignPair)
	case len(privateData) > c.net.Info().MaxCalleeData:
		return c.d.Error(op, "private data", rdma.StatusInvalidBufferSize, nil)
	case ctx.Err() != nil:
		return c.d.Canceled(ctx, op, "")
	}
	c.mu.Lock()
	if c.phase != phaseRequested {
		defer c.mu.Unlock()
		return c.d.Error(op, "", c.acceptStatusLocked(), nil)
	}
	if err := pair.Reserve(op); err != nil {
		c.mu.Unlock()
		return err
	}
	request, object := c.open.(Request), c.ends.Peer.String()
	work := c.beginLocked(ctx, phaseAccepting)
	c.mu.Unlock()

	conn, err := request.Accept(work, pair, limits, privateData, c.end)
	if err != nil {
		status, cause := acceptFailure(err)
		err = c.failure(ctx, work, op, object, status, cause)
	}
	return c.settle(op, object, pair, conn, err)
}

// acceptStatusLocked returns the status for a connector without a request.
func (c *Connector) acceptStatusLocked() rdma.Status {
	switch c.phase {
	case phaseConnecting, phaseReplied, phaseAccepting, phaseConnected:
		return rdma.StatusConnectionActive
	}
	return rdma.StatusConnectionInvalid
}

// acceptFailure returns the status and the cause of a failed Accept. If the peer ends the
// attempt after the answer, the error is both StatusConnectionRefused and
// StatusConnectionAborted. [ND §9 NdConnReject]
func acceptFailure(err error) (rdma.Status, error) {
	switch {
	case errors.Is(err, ErrNotReady):
		return rdma.StatusIOTimeout, err
	case errors.Is(err, ErrGaveUp):
		return rdma.StatusConnectionRefused, errors.Join(rdma.StatusConnectionAborted, err)
	case errors.Is(err, net.ErrClosed):
		return rdma.StatusCanceled, err
	}
	return rdma.StatusConnectionAborted, err
}

// Reject refuses a request, or an acceptance.
//
// Source: [ND Connector.Reject]
func (c *Connector) Reject(privateData []byte) error {
	const op = "reject"
	c.mu.Lock()
	switch {
	case c.phase != phaseRequested && c.phase != phaseReplied:
		c.mu.Unlock()
		return c.d.Error(op, "", rdma.StatusConnectionInvalid, nil)
	case len(privateData) > c.net.Info().MaxCalleeData:
		c.mu.Unlock()
		return c.d.Error(op, "private data", rdma.StatusInvalidBufferSize, nil)
	}
	refuse := c.dropLocked()
	c.mu.Unlock()
	refuse(privateData)
	return nil
}

// dropLocked ends the connector. It returns a function that refuses the handshake, if
// there is one.
func (c *Connector) dropLocked() (refuse func(private []byte)) {
	open, pair := c.open, c.pair
	c.phase, c.open, c.pair = phaseDead, nil, nil
	if open == nil {
		return func([]byte) {}
	}
	c.ends = nil
	return func(private []byte) {
		open.Refuse(private)
		if pair != nil {
			pair.Unreserve()
		}
	}
}

// beginLocked enters a phase in which an operation waits for the peer. The returned
// context ends with the operation, or when Close cancels it.
func (c *Connector) beginLocked(ctx context.Context, p phase) context.Context {
	c.phase, c.work = p, make(chan struct{})
	ctx, c.cancel = context.WithCancel(ctx)
	return ctx
}

// finishLocked ends the operation of beginLocked and enters the phase next. It reports
// whether Close was called meanwhile; the phase is then phaseDead.
func (c *Connector) finishLocked(next phase) (closed bool) {
	c.cancel()
	close(c.work)
	c.cancel, c.work, c.phase = nil, nil, next
	if c.closed {
		c.phase = phaseDead
	}
	return c.closed
}

// failure returns the error of an unfinished operation. The end of the operation's
// context, or a Close, takes precedence over the cause.
func (c *Connector) failure(ctx, work context.Context, op, object string, status rdma.Status, cause error) error {
	switch {
	case ctx.Err() != nil:
		return c.d.Canceled(ctx, op, object)
	case work.Err() != nil:
		return c.d.Error(op, object, rdma.StatusCanceled, net.ErrClosed)
	}
	return c.d.Error(op, object, status, cause)
}

// settle finishes an Accept or a CompleteConnect with the connection or the error.
func (c *Connector) settle(op, object string, pair Pair, conn Conn, err error) error {
	switch {
	case err == nil:
	case conn != nil:
		<-conn.Finished()
	default:
		pair.Unreserve()
	}
	c.mu.Lock()
	c.open, c.pair = nil, nil
	if err != nil {
		c.ends = nil
		c.finishLocked(phaseDead)
		c.mu.Unlock()
		c.end(nil)
		return err
	}
	c.conn = conn
	closed := c.finishLocked(phaseConnected)
	c.mu.Unlock()
	if closed {
		<-conn.Finished() // Close disconnects it
		return c.d.Error(op, object, rdma.StatusCanceled, net.ErrClosed)
	}
	return nil
}
