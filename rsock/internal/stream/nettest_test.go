package stream

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// netConn is a stream as a net.Conn.
type netConn struct{ *Stream }

func (c netConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c netConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
func (c netConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c netConn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	return n, asNet(err)
}

func (c netConn) Write(p []byte) (int, error) {
	n, err := c.Stream.Write(p)
	return n, asNet(err)
}

// asNet returns the error of a deadline as a net.Error.
func asNet(err error) error {
	if err == os.ErrDeadlineExceeded { //nolint:errorlint // it is never wrapped
		return &net.OpError{Op: "test", Net: "test", Err: err}
	}
	return err
}

// TestNetConnSuite runs the test of package nettest, with data in messages, by RDMA Reads and
// by RDMA Writes.
func TestNetConnSuite(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for name, cfg := range map[string]Config{
			"plain":    {},
			"spinning": {BusyPoll: time.Hour},
			"messages": {Threshold: 1 << 30},
			"writes":   {NoRead: true},
		} {
			t.Run(name, func(t *testing.T) {
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					a, b := pair(t, f, setup{active: cfg, passive: cfg})
					return netConn{a}, netConn{b}, func() { closeBoth(a, b) }, nil
				})
			})
		}
	})
}
