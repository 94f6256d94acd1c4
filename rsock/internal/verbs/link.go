package verbs

import (
	"context"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// link is the connection of a socket. Safe for concurrent use.
type link struct {
	connecting sync.Mutex // held by Connect; guards the next two fields
	local      rdma.Addr
	conn       rdma.Connector // set once, when the socket is connected or accepted
	connected  atomic.Bool
}

// Bind sets the address to connect from. Without Bind the provider picks the address.
//
// Errors: EINVAL once connected.
//
// Source: [WSD §2.1 WSPBind]
func (l *link) Bind(local rdma.Addr) error {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.conn != nil {
		return &Error{Op: "bind", Object: local.String(), Errno: EINVAL}
	}
	l.local = local
	return nil
}

// connector returns the connector of the connection, or nil.
func (l *link) connector() rdma.Connector {
	if !l.connected.Load() {
		return nil
	}
	return l.conn
}

// LocalAddr returns the address of this side of the connection, or of the connection
// request.
//
// Errors: ENOTCONN.
func (l *link) LocalAddr() (rdma.Addr, error) {
	return l.address("local address", rdma.Connector.LocalAddr)
}

// PeerAddr returns the address of the peer.
//
// Errors: ENOTCONN.
func (l *link) PeerAddr() (rdma.Addr, error) {
	return l.address("peer address", rdma.Connector.PeerAddr)
}

func (l *link) address(op string, of func(rdma.Connector) (rdma.Addr, error)) (rdma.Addr, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.conn == nil {
		return rdma.Addr{}, &Error{Op: op, Errno: ENOTCONN}
	}
	a, err := of(l.conn)
	if err != nil {
		return rdma.Addr{}, failed(op, "", err)
	}
	return a, nil
}

// Err returns why the connection ended. It is nil before and during the connection.
func (l *link) Err() error {
	c := l.connector()
	if c == nil {
		return nil
	}
	err := c.Err()
	if err == nil {
		return nil
	}
	return &Error{Op: "connection", Errno: ECONNRESET, Err: err}
}

// Disconnect ends the connection after the requests that were posted before, if the peer
// receives them. Pending requests end as with Close; Poll still returns them.
//
// Errors: ENOTCONN; ctx's, and then the disconnect goes on.
func (l *link) Disconnect(ctx context.Context) error {
	c := l.connector()
	if c == nil {
		return &Error{Op: "disconnect", Errno: ENOTCONN}
	}
	if err := c.Disconnect(ctx); err != nil {
		return failed("disconnect", "", err)
	}
	return nil
}
