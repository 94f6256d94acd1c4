package rdmatest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"lwio/rdma"
)

// patience is the time that a provider may take for an immediate operation on any
// machine. It only bounds a hang.
const patience = time.Minute

// patience returns the patience of the suite, or a shorter one for tests of the suite.
func (r *rig) patience() time.Duration {
	if r.cfg.patience != 0 {
		return r.cfg.patience
	}
	return patience
}

// rig is the environment of a case: the test, and the provider under test.
type rig struct {
	testing.TB
	cfg      Config
	provider rdma.Provider
}

// ctx returns a context for one operation.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), r.patience())
	r.Cleanup(cancel)
	return ctx
}

// ok ends the case if err is not nil.
func (r *rig) ok(what string, err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

// fails records a failure if err does not have one of the statuses. It also records a
// failure if err has the status only because the context of the call ended.
func (r *rig) fails(what string, err error, want ...rdma.Status) {
	r.Helper()
	if errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("%s: continues until its context ends: %v", what, err)
		return
	}
	for _, s := range want {
		if errors.Is(err, s) {
			return
		}
	}
	r.Errorf("%s: error %v, want %v", what, err, want)
}

// is records a failure unless errors.Is(err, target).
func (r *rig) is(what string, err, target error) {
	r.Helper()
	if !errors.Is(err, target) {
		r.Errorf("%s: error %v, want %q", what, err, target)
	}
}

// closeNow closes c, and records a failure if the close fails or does not return.
func (r *rig) closeNow(what string, c io.Closer) {
	r.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Close() }()
	select {
	case err := <-done:
		if err != nil {
			r.Errorf("close %s: %v", what, err)
		}
	case <-time.After(r.patience()):
		r.Errorf("close %s: does not return", what)
	}
}

// closeLater closes c at the end of the case.
func (r *rig) closeLater(what string, c io.Closer) {
	r.Cleanup(func() { r.closeNow(what, c) })
}

// call is an operation that runs concurrently with the case.
type call struct {
	r     *rig
	what  string
	limit time.Duration
	stop  context.CancelFunc
	done  chan struct{}
	err   error
}

// begin starts f, which is one operation, in a goroutine. The end of the case cancels it.
func (r *rig) begin(what string, f func(context.Context) error) *call {
	return r.beginFor(r.patience(), what, f)
}

// beginMany is begin for an f of hundreds of consecutive operations.
func (r *rig) beginMany(what string, f func(context.Context) error) *call {
	return r.beginFor(5*r.patience(), what, f)
}

func (r *rig) beginFor(limit time.Duration, what string, f func(context.Context) error) *call {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	c := &call{r: r, what: what, limit: limit, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = f(ctx)
	}()
	r.Cleanup(func() {
		cancel()
		if !c.over(r.patience()) {
			r.Errorf("%s: continues although its context ended", what)
		}
	})
	return c
}

// over waits for the end of the operation and reports whether it ended in time.
func (c *call) over(within time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(within):
		return false
	}
}

// wait returns the error of the operation.
func (c *call) wait() error {
	c.r.Helper()
	if !c.over(c.limit + c.r.patience()) {
		c.r.Fatalf("%s: continues although its context ended", c.what)
	}
	return c.err
}

// canceled cancels the operation. It records a failure unless the operation ends with the
// error of its context and with StatusCanceled.
func (c *call) canceled() {
	c.r.Helper()
	c.stop()
	if !c.over(c.r.patience() / 2) {
		c.r.Fatalf("%s: continues although it was canceled", c.what)
	}
	err := c.err
	c.r.is(c.what+", canceled", err, context.Canceled)
	c.r.is(c.what+", canceled", err, rdma.StatusCanceled)
}

// eventually polls until f is true.
func (r *rig) eventually(what string, f func() bool) {
	r.Helper()
	for end := time.Now().Add(r.patience()); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%s: does not happen", what)
		}
	}
}

// ends waits until the connection has ended.
func (r *rig) ends(what string, c rdma.Connector) {
	r.Helper()
	select {
	case <-c.Done():
		if c.Err() == nil {
			r.Errorf("%s: the connection has ended and Err is nil", what)
		}
	case <-time.After(r.patience()):
		r.Fatalf("%s: the connection does not end", what)
	}
}

// adapter opens an adapter for the rest of the case.
func (r *rig) adapter() rdma.Adapter {
	r.Helper()
	a, err := r.provider.OpenAdapter(r.ctx(), r.cfg.Addr.AddrPort.Addr())
	r.ok("open adapter", err)
	r.closeLater("adapter", a)
	return a
}

// region registers buf for the rest of the case.
func (r *rig) region(a rdma.Adapter, buf []byte, access rdma.Access) rdma.MemoryRegion {
	r.Helper()
	m, err := a.RegisterMemory(r.ctx(), buf, access)
	r.ok("register memory", err)
	r.closeLater("region", m)
	return m
}

// queue makes a completion queue for the rest of the case.
func (r *rig) queue(a rdma.Adapter, depth int) rdma.CompletionQueue {
	r.Helper()
	q, err := a.CreateCompletionQueue(depth)
	r.ok("create completion queue", err)
	r.closeLater("completion queue", q)
	return q
}

// connector makes a connector for the rest of the case.
func (r *rig) connector(a rdma.Adapter) rdma.Connector {
	r.Helper()
	c, err := a.CreateConnector()
	r.ok("create connector", err)
	r.closeLater("connector", c)
	return c
}

// listen listens for the rest of the case.
func (r *rig) listen(a rdma.Adapter) (rdma.Listener, rdma.Addr) {
	r.Helper()
	l, err := rdma.Listen(r.ctx(), a, r.cfg.Addr, 0)
	r.ok("listen", err)
	r.closeLater("listener", l)
	addr, err := l.LocalAddr()
	r.ok("address of the listener", err)
	return l, addr
}
