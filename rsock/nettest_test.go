package rsock

import (
	"context"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"lwio/rdma"
)

// TestNetConnSuite runs the test of package nettest over each provider and over TCP.
func TestNetConnSuite(t *testing.T) {
	t.Run("tcp", func(t *testing.T) { nettest.TestConn(t, pipe(func() *Config { return nil }, TransportTCP)) })
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		p := provider() // one for all, as in a program
		nettest.TestConn(t, pipe(func() *Config { return with(p) }, p.Name()))
	})
}

// pipe makes connections by a Dialer and a Listener.
func pipe(cfg func() *Config, transport string) nettest.MakePipe {
	return func() (c1, c2 net.Conn, stop func(), err error) {
		l, err := Listen("tcp", "127.0.0.1:0", cfg())
		if err != nil {
			return nil, nil, nil, err
		}
		dialed, err := (&Dialer{Config: cfg()}).DialConn(context.Background(), "tcp", l.Addr().String())
		if err != nil {
			l.Close()
			return nil, nil, nil, err
		}
		accepted, err := l.AcceptConn()
		if err == nil && (dialed.Transport().Name != transport || accepted.Transport().Name != transport) {
			panic("not by " + transport)
		}
		return dialed, accepted, func() {
			dialed.Close()
			accepted.Close()
			l.Close()
		}, err
	}
}
