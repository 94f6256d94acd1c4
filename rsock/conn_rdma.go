package rsock

import (
	"context"
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
	"lwio/rsock/internal/verbs"
)

// sessionCarrier is a session over RDMA as a carrier.
type sessionCarrier struct {
	stream        *stream.Stream
	partings      *partings
	stays         atomic.Bool // Close waits, as SetLinger has said
	network       string      // the provider's name
	local, remote net.Addr
	late          atomic.Pointer[net.OpError] // what a Read returns whose time is over
}

var _ carrier = (*sessionCarrier)(nil)

// newSession prepares a session on a socket that is not connected. What follows is Start,
// and then newRDMAConn or Abort, which closes the socket too. So does a failure here.
func (b *board) newSession(ctx context.Context, sock *verbs.Socket) (*stream.Stream, error) {
	cfg := &b.cfg
	return stream.New(ctx, sock, stream.Config{
		ReceiveBuffers: cfg.ReceiveBuffers, BufferSize: cfg.BufferSize,
		Threshold: cfg.Threshold, NoRead: cfg.NoRead, Spin: cfg.Spin,
		Linger: cfg.Linger, Memory: b.bulk,
	})
}

// newRDMAConn is a connection over a session that has begun, on a lane that it releases when
// it is closed and its socket too.
func newRDMAConn(s *stream.Stream, t Transport, local, remote netip.AddrPort, l *lane) *Conn {
	s.AfterClose(l.release)
	return &Conn{transport: t, via: &sessionCarrier{
		stream: s, partings: &l.board.partings, network: t.Name,
		local: net.TCPAddrFromAddrPort(local), remote: net.TCPAddrFromAddrPort(remote),
	}}
}

// wrap makes a *net.OpError of an error, but for io.EOF.
func (c *sessionCarrier) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // as io.Reader says
		return err
	}
	return opError(op, c.network, c.local, c.remote, err)
}

func (c *sessionCarrier) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if err == nil {
		return n, nil
	}
	if err == os.ErrDeadlineExceeded { //nolint:errorlint // an error that wraps it says more
		return n, c.tooLate()
	}
	return n, c.wrap("read", err)
}

// tooLate is the error of a Read whose time is over. It is made once: net/http's server ends a
// Read so with each request.
func (c *sessionCarrier) tooLate() error {
	if e := c.late.Load(); e != nil {
		return e
	}
	e := &net.OpError{Op: "read", Net: c.network, Source: c.local, Addr: c.remote, Err: os.ErrDeadlineExceeded}
	c.late.Store(e)
	return e
}

func (c *sessionCarrier) Write(p []byte) (int, error) {
	n, err := c.stream.Write(p)
	if err != nil {
		err = c.wrap("write", err)
	}
	return n, err
}

func (c *sessionCarrier) ReadUrgent(p []byte) (int, error) {
	n, err := c.stream.ReadUrgent(p)
	return n, c.wrap("read", err)
}

func (c *sessionCarrier) WriteUrgent(p []byte) (int, error) {
	n, err := c.stream.WriteUrgent(p)
	return n, c.wrap("write", err)
}

func (c *sessionCarrier) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.stream.ReadFrom(r)
	return n, c.wrap("readfrom", err)
}

func (c *sessionCarrier) WriteTo(w io.Writer) (int64, error) {
	n, err := c.stream.WriteTo(w)
	return n, c.wrap("writeto", err)
}

func (c *sessionCarrier) Close() error {
	if !c.stream.BeginClose() {
		return c.wrap("close", net.ErrClosed)
	}
	if c.stays.Load() {
		return c.wrap("close", c.stream.EndClose())
	}
	return c.wrap("close", c.partings.close(c.stream))
}

func (c *sessionCarrier) CloseRead() error     { return c.wrap("close", c.stream.CloseRead()) }
func (c *sessionCarrier) CloseWrite() error    { return c.wrap("close", c.stream.CloseWrite()) }
func (c *sessionCarrier) LocalAddr() net.Addr  { return c.local }
func (c *sessionCarrier) RemoteAddr() net.Addr { return c.remote }

func (c *sessionCarrier) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *sessionCarrier) SetReadDeadline(t time.Time) error {
	return c.wrap("set", c.stream.SetReadDeadline(t))
}

func (c *sessionCarrier) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.stream.SetWriteDeadline(t))
}

// SetNoDelay has nothing to do: what is written goes out at once.
func (c *sessionCarrier) SetNoDelay(bool) error { return nil }

func (c *sessionCarrier) SetLinger(sec int) error {
	c.stays.Store(sec >= 0)
	c.stream.SetLinger(lingerOf(sec))
	return nil
}

// maxLinger is the most seconds of SetLinger, which is for ever.
const maxLinger = math.MaxInt32

// lingerOf is a number of seconds as a time.
func lingerOf(sec int) time.Duration {
	return time.Duration(max(min(sec, maxLinger), -1)) * time.Second
}

// errNoSyscalls says why there is no SyscallConn.
var errNoSyscalls = fmt.Errorf("a connection over RDMA has no descriptor: %w", errors.ErrUnsupported)

func (c *sessionCarrier) SyscallConn() (syscall.RawConn, error) {
	return nil, c.wrap("raw-control", errNoSyscalls)
}

func (c *sessionCarrier) Stats() Stats { return Stats(c.stream.Stats()) }
