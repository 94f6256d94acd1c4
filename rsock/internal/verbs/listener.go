package verbs

import (
	"context"
	"errors"

	"lwio/rdma"
)

// Listener accepts incoming connections. Safe for concurrent use.
//
// Source: [WSD §3.2]
type Listener struct {
	v *Service
	l rdma.Listener
}

// Listen makes a listener at local. At most backlog requests wait for Accept; further
// requests are refused. With 0 the provider sets the number.
//
// Errors: EADDRINUSE, EADDRNOTAVAIL, ENOTSOCK once the service is closed.
//
// Source: [WSD §2.1 WSPListen]
func (v *Service) Listen(ctx context.Context, local rdma.Addr, backlog int) (*Listener, error) {
	l, err := rdma.Listen(ctx, v.base, local, backlog)
	if err != nil {
		return nil, failed("listen", local.String(), err)
	}
	return &Listener{v: v, l: l}, nil
}

// Addr returns the address of the listener, with the port that the provider picked.
func (l *Listener) Addr() (rdma.Addr, error) {
	a, err := l.l.LocalAddr()
	if err != nil {
		return rdma.Addr{}, failed("local address", "", err)
	}
	return a, nil
}

// Accept waits for a request for a connection. The caller answers the request by Accept or
// Reject, as the condition function of WSPAccept does. The peer gets no answer before that.
//
// Errors: ctx's; OperationAborted once the listener is closed.
//
// Source: [WSD §3.2]
func (l *Listener) Accept(ctx context.Context) (*Incoming, error) {
	s, err := l.v.open(ctx)
	if err != nil {
		return nil, err
	}
	in, err := l.take(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return in, nil
}

// take makes s the socket of the next request.
func (l *Listener) take(ctx context.Context, s *Socket) (*Incoming, error) {
	const op = "accept"
	c, err := s.adapter.CreateConnector()
	if err != nil {
		return nil, failed(op, "", err)
	}
	s.conn = c
	if err := l.l.ConnectionRequest(ctx, c); err != nil {
		return nil, failed(op, "", err)
	}
	in := &Incoming{s: s}
	if in.private, err = c.PrivateData(); err != nil {
		return nil, failed(op, "", err)
	}
	return in, errors.Join(s.build(), l.v.enter(s))
}

// Close stops listening; requests that wait for Accept are refused. Sockets stay open. A
// second Close does nothing.
func (l *Listener) Close() error { return l.l.Close() }

// Incoming is a request for a connection. It is not safe for concurrent use.
type Incoming struct {
	s       *Socket
	private []byte
}

// PrivateData returns the data that the peer sent with the request; some fabrics pad it
// with zeros.
func (in *Incoming) PrivateData() []byte { return in.private }

// LocalAddr and PeerAddr are the ends of the connection.
func (in *Incoming) LocalAddr() (rdma.Addr, error) { return in.s.LocalAddr() }

// PeerAddr returns the address of the peer.
func (in *Incoming) PeerAddr() (rdma.Addr, error) { return in.s.PeerAddr() }

// Socket returns the socket of the connection. The caller posts receives for the first
// messages of the peer before Accept.
func (in *Incoming) Socket() *Socket { return in.s }

// Accept begins the connection, with private data for the peer. After an error the
// socket is closed.
//
// Errors: EINVAL if no receive is posted yet or for too much private data;
// ECONNABORTED if the peer gave up.
//
// Source: [WSD §3.2 CF_ACCEPT], [WSD §3.3]
func (in *Incoming) Accept(ctx context.Context, private []byte) (*Socket, error) {
	s := in.s
	err := s.posted("accept")
	if err == nil {
		err = s.conn.Accept(ctx, s.qp, limits(&s.v.info), private)
	}
	if err != nil {
		object := ""
		if peer, e := s.PeerAddr(); e == nil {
			object = peer.String()
		}
		if ErrnoOf(err) != EINVAL {
			err = failed("accept", object, err)
		}
		return nil, errors.Join(err, s.Close())
	}
	s.connected.Store(true)
	return s, nil
}

// Reject refuses the connection with private data for the peer, and closes the socket.
// Connect of the peer fails with ECONNREFUSED.
//
// Source: [WSD §3.2 CF_REJECT]
func (in *Incoming) Reject(private []byte) error {
	err := in.s.conn.Reject(private)
	if err != nil {
		err = failed("reject", "", err)
	}
	return errors.Join(err, in.s.Close())
}
