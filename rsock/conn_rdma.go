package rsock

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"lwio/rsock/internal/stream"
)

// rdmaCarrier carries a Conn over RDMA.
type rdmaCarrier struct {
	stream        *stream.Stream
	draining      *draining
	waits         atomic.Bool // Close waits for the peer, as SetLinger has set
	network       string      // the provider's name
	local, remote net.Addr
	timedOut      atomic.Pointer[net.OpError] // the error of a Read whose deadline has passed
}

var _ carrier = (*rdmaCarrier)(nil)

// newRDMAConn returns a connection over a negotiated stream. The connection releases its
// service once its socket is closed.
func (r *router) newRDMAConn(s *stream.Stream, t Transport, local, remote netip.AddrPort, svc *service) *Conn {
	s.AfterClose(svc.release)
	return &Conn{transport: t, via: &rdmaCarrier{
		stream: s, draining: &r.draining, network: t.Name,
		local: net.TCPAddrFromAddrPort(local), remote: net.TCPAddrFromAddrPort(remote),
	}}
}

// wrap returns an error as a *net.OpError, and io.EOF as it is.
func (c *rdmaCarrier) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // as io.Reader says
		return err
	}
	return opError(op, c.network, c.local, c.remote, err)
}

func (c *rdmaCarrier) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if err == nil {
		return n, nil
	}
	if err == os.ErrDeadlineExceeded { //nolint:errorlint // an error that wraps it says more
		return n, c.timeout()
	}
	return n, c.wrap("read", err)
}

// timeout returns the error of a Read whose deadline has passed. The error is made once,
// because the server of net/http ends a Read by deadline with each request.
func (c *rdmaCarrier) timeout() error {
	if e := c.timedOut.Load(); e != nil {
		return e
	}
	e := &net.OpError{Op: "read", Net: c.network, Source: c.local, Addr: c.remote, Err: os.ErrDeadlineExceeded}
	c.timedOut.Store(e)
	return e
}

func (c *rdmaCarrier) Write(p []byte) (int, error) {
	n, err := c.stream.Write(p)
	if err != nil {
		err = c.wrap("write", err)
	}
	return n, err
}

func (c *rdmaCarrier) ReadUrgent(p []byte) (int, error) {
	n, err := c.stream.ReadUrgent(p)
	return n, c.wrap("read", err)
}

func (c *rdmaCarrier) WriteUrgent(p []byte) (int, error) {
	n, err := c.stream.WriteUrgent(p)
	return n, c.wrap("write", err)
}

func (c *rdmaCarrier) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.stream.ReadFrom(r)
	return n, c.wrap("readfrom", err)
}

func (c *rdmaCarrier) WriteTo(w io.Writer) (int64, error) {
	n, err := c.stream.WriteTo(w)
	return n, c.wrap("writeto", err)
}

func (c *rdmaCarrier) Close() error {
	if !c.stream.BeginClose() {
		return c.wrap("close", net.ErrClosed)
	}
	if c.waits.Load() {
		return c.wrap("close", c.stream.EndClose())
	}
	return c.wrap("close", c.draining.close(c.stream))
}

func (c *rdmaCarrier) CloseRead() error     { return c.wrap("close", c.stream.CloseRead()) }
func (c *rdmaCarrier) CloseWrite() error    { return c.wrap("close", c.stream.CloseWrite()) }
func (c *rdmaCarrier) LocalAddr() net.Addr  { return c.local }
func (c *rdmaCarrier) RemoteAddr() net.Addr { return c.remote }

func (c *rdmaCarrier) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *rdmaCarrier) SetReadDeadline(t time.Time) error {
	return c.wrap("set", c.stream.SetReadDeadline(t))
}

func (c *rdmaCarrier) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.stream.SetWriteDeadline(t))
}

// SetNoDelay has no effect: written data is sent at once.
func (c *rdmaCarrier) SetNoDelay(bool) error { return nil }

func (c *rdmaCarrier) SetLinger(sec int) error {
	c.waits.Store(sec >= 0)
	c.stream.SetLinger(lingerOf(sec))
	return nil
}

// maxLinger is the largest number of seconds of SetLinger. It replaces larger numbers.
const maxLinger = math.MaxInt32

// lingerOf converts a number of seconds. A negative number stays negative.
func lingerOf(sec int) time.Duration {
	return time.Duration(max(min(sec, maxLinger), -1)) * time.Second
}

// errNoSyscalls is the error of SyscallConn.
var errNoSyscalls = fmt.Errorf("a connection over RDMA has no descriptor: %w", errors.ErrUnsupported)

func (c *rdmaCarrier) SyscallConn() (syscall.RawConn, error) {
	return nil, c.wrap("raw-control", errNoSyscalls)
}

func (c *rdmaCarrier) Stats() Stats { return Stats(c.stream.Stats()) }
