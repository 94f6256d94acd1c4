package verbs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// Socket is one connection. Safe for concurrent use.
//
// Source: [WSD §2], [WSD §3]
type Socket struct {
	v       *Service
	adapter rdma.Adapter
	cq      rdma.CompletionQueue
	qp      rdma.QueuePair

	life context.Context // ends with the socket
	end  context.CancelFunc

	connecting sync.Mutex // held by Connect; guards the next two
	local      rdma.Addr
	conn       rdma.Connector // once connected it stays
	connected  atomic.Bool

	polling sync.Mutex // held by who hands out completions; guards results
	results [pollBatch]rdma.Result
	late    atomic.Bool // there is something in refused

	posting sync.Mutex // held by who posts; guards the next four
	recvs   []rdma.ReceiveRequest
	sends   []rdma.Request
	sges    []rdma.SGE
	refused []refusal

	mu      sync.Mutex // guards what follows
	closed  bool
	recving slots
	sending slots
	memory  registry

	closing sync.Once
	err     error // of Close
}

// newSocket begins a socket on an adapter of its own.
func newSocket(v *Service, a rdma.Adapter) *Socket {
	s := &Socket{v: v, adapter: a}
	s.life, s.end = context.WithCancel(context.Background())
	s.recving.init(v.opts.ReceiveDepth)
	s.sending.init(v.opts.SendDepth)
	s.memory.init()
	return s
}

// build makes the queues.
func (s *Socket) build() (err error) {
	o := &s.v.opts
	if s.cq, err = s.adapter.CreateCompletionQueue(o.ReceiveDepth + o.SendDepth); err != nil {
		return failed("socket", s.v.Name(), err)
	}
	s.qp, err = s.adapter.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: s.cq, InitiatorCQ: s.cq,
		ReceiveDepth: o.ReceiveDepth, InitiatorDepth: o.SendDepth,
		MaxReceiveSGE: o.MaxBuffers, MaxInitiatorSGE: o.MaxBuffers,
	})
	if err != nil {
		return failed("socket", s.v.Name(), err)
	}
	return nil
}

// Options are those of the service.
func (s *Socket) Options() Options { return s.v.opts }

// Service is what made the socket.
func (s *Socket) Service() *Service { return s.v }

// Bind sets the address to connect from; without it the provider picks one.
//
// Errors: EINVAL once connected.
//
// Source: [WSD §2.1 WSPBind]
func (s *Socket) Bind(local rdma.Addr) error {
	s.connecting.Lock()
	defer s.connecting.Unlock()
	if s.conn != nil {
		return &Error{Op: "bind", Object: local.String(), Errno: EINVAL}
	}
	s.local = local
	return nil
}

// Connect connects to a listener, with some private data, and returns that of the
// peer, also if it refused. After a failure it may be called again. Post receives
// before, as the peer may send at once.
//
// Errors: ECONNREFUSED if somebody listens there and refused; EHOSTUNREACH if there
// is no such host; ETIMEDOUT for all that says nothing about TCP: no answer, and no
// listener; ENETUNREACH; EINVAL if no receive is posted, and for too much private
// data; EISCONN; ENOTSOCK; ctx's.
//
// Source: [WSD §2.1 WSPConnect], [WSD §3.1]
func (s *Socket) Connect(ctx context.Context, remote rdma.Addr, private []byte) ([]byte, error) {
	const op = "connect"
	s.connecting.Lock()
	defer s.connecting.Unlock()
	if s.conn != nil {
		return nil, &Error{Op: op, Object: remote.String(), Errno: EISCONN}
	}
	if err := s.posted(op); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	c, err := s.adapter.CreateConnector()
	if err != nil {
		return nil, failed(op, remote.String(), err)
	}
	err = c.Bind(ctx, s.local)
	if err == nil {
		err = c.Connect(ctx, s.qp, remote, limits(&s.v.info), private)
	}
	reply, silent := c.PrivateData()
	if err == nil {
		err = c.CompleteConnect(ctx)
	}
	if err != nil {
		c.Close()
		return reply, connectError(ctx, remote, silent != nil, err)
	}
	s.conn = c
	s.connected.Store(true)
	return reply, nil
}

// connectError is the error of a Connect. silent says that the peer has not answered.
func connectError(ctx context.Context, remote rdma.Addr, silent bool, err error) error {
	e := &Error{Op: "connect", Object: remote.String(), Errno: errnoOf(rdma.StatusOf(err)), Err: err}
	switch {
	case ctx.Err() != nil:
		e.Errno = ETIMEDOUT
	case silent && e.Errno == ECONNREFUSED, e.Errno == ECONNABORTED, e.Errno == ENOTCONN:
		e.Errno = ETIMEDOUT
	}
	return e
}

// posted makes sure that a receive is posted, as a connection needs at least one.
func (s *Socket) posted(op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &Error{Op: op, Errno: ENOTSOCK}
	case s.recving.used() == 0:
		return &Error{Op: op, Object: "no receive is posted", Errno: EINVAL}
	}
	return nil
}

// connector is that of the connection.
func (s *Socket) connector() rdma.Connector {
	if !s.connected.Load() {
		return nil
	}
	return s.conn
}

// LocalAddr is this side's end of the connection, or of the request for one.
//
// Errors: ENOTCONN.
func (s *Socket) LocalAddr() (rdma.Addr, error) {
	return s.address("local address", rdma.Connector.LocalAddr)
}

// PeerAddr is the other end.
//
// Errors: ENOTCONN.
func (s *Socket) PeerAddr() (rdma.Addr, error) {
	return s.address("peer address", rdma.Connector.PeerAddr)
}

func (s *Socket) address(op string, of func(rdma.Connector) (rdma.Addr, error)) (rdma.Addr, error) {
	s.connecting.Lock()
	defer s.connecting.Unlock()
	if s.conn == nil {
		return rdma.Addr{}, &Error{Op: op, Errno: ENOTCONN}
	}
	a, err := of(s.conn)
	if err != nil {
		return rdma.Addr{}, failed(op, "", err)
	}
	return a, nil
}

// Err says why the connection ended: nil while it goes on, or before there was one.
func (s *Socket) Err() error {
	c := s.connector()
	if c == nil {
		return nil
	}
	err := c.Err()
	if err == nil {
		return nil
	}
	return &Error{Op: "connection", Errno: ECONNRESET, Err: err}
}

// Disconnect ends the connection in good order: what was posted before it leaves
// first, as far as the peer takes it. Pending requests end as with Close; they still
// come out of Poll.
//
// Errors: ENOTCONN; ctx's, the end then goes on.
func (s *Socket) Disconnect(ctx context.Context) error {
	c := s.connector()
	if c == nil {
		return &Error{Op: "disconnect", Errno: ENOTCONN}
	}
	if err := c.Disconnect(ctx); err != nil {
		return failed("disconnect", "", err)
	}
	return nil
}

// Close ends the connection, if there is one, and all that the socket has. When the
// provider touches no memory any more, and what was registered is released, the
// pending receives end with ECONNRESET, and all other pending requests with
// OperationAborted; who has asked for that is notified before Close returns. It must
// not be called from a Complete function. A second Close waits for the first.
//
// Memory of Alloc is gone then: nobody may use it while Close runs.
//
// Source: [WSD §7]
func (s *Socket) Close() error {
	s.closing.Do(func() { s.err = s.close() })
	return s.err
}

func (s *Socket) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.connecting.Lock()
	conn := s.conn
	s.connecting.Unlock()
	var errs []error
	if conn != nil {
		errs = append(errs, conn.Close())
	}
	if s.qp != nil {
		errs = append(errs, s.qp.Close())
	}
	s.posting.Lock() // who posts meanwhile fails, and is not missed
	s.dropLocked()
	s.posting.Unlock()
	errs = append(errs, s.closeMemory())
	if s.cq != nil {
		s.drain()
		errs = append(errs, s.cq.Close())
	}
	s.v.forget(s)
	return errors.Join(append(errs, s.adapter.Close())...)
}
