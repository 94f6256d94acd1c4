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

	link

	life context.Context // ends with the socket
	end  context.CancelFunc

	polling sync.Mutex // held by one Poll; guards results
	results [pollBatch]rdma.Result
	late    atomic.Bool // refused is not empty

	posting sync.Mutex // held by one post; guards the next four fields
	recvs   []rdma.ReceiveRequest
	sends   []rdma.Request
	sges    []rdma.SGE
	refused []refusal

	mu      sync.Mutex // guards the fields below
	closed  bool
	recving requestTable
	sending requestTable
	memory  registry

	closing sync.Once
	err     error // of Close
}

// newSocket returns a socket without queues on an adapter of its own.
func newSocket(v *Service, a rdma.Adapter) *Socket {
	s := &Socket{v: v, adapter: a}
	s.life, s.end = context.WithCancel(context.Background())
	s.recving.init(v.opts.ReceiveDepth)
	s.sending.init(v.opts.SendDepth)
	s.memory.init()
	return s
}

// build creates the queues.
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

// Options returns the options of the service.
func (s *Socket) Options() Options { return s.v.opts }

// Service returns the service of the socket.
func (s *Socket) Service() *Service { return s.v }

// Connect connects to a listener, with private data for the peer. It returns the private
// data of the peer, also if the peer refused. After a failure Connect may be called again.
// The caller posts receives before, because the peer may send at once.
//
// Errors: ECONNREFUSED if a listener refused; EHOSTUNREACH if there is no such host;
// ETIMEDOUT for a failure that may not concern TCP: no answer, and no listener;
// ENETUNREACH; EINVAL if no receive is posted, and for too much private data; EISCONN;
// ENOTSOCK; ctx's.
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

// connectError returns the error of a Connect. silent says that the peer has not answered.
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

// posted returns an error unless a receive is posted. A connection needs a posted receive.
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

// Close ends the connection, if there is one, and closes all objects of the socket. Pending
// receives end with ECONNRESET, and all other pending requests with OperationAborted. They
// end after the provider has stopped to access memory and the registrations are released.
// Their Complete functions are called before Close returns. Close must not be called from a
// Complete function. A second Close waits for the first.
//
// Close frees memory of Alloc. The memory must not be used during Close or later.
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
	s.posting.Lock() // a request that is posted meanwhile fails
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
