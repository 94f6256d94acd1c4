package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lwio/rsock/internal/verbs"
)

// Stream is one side of a connection: a stream of bytes in each direction. All methods but
// Start may be called at any time by many goroutines.
//
// Source: [WSD §4], [WSD §5]
type Stream struct {
	sock  socket
	cfg   Config
	baton baton

	running    sync.WaitGroup // the stream's goroutine
	over       chan struct{}  // closed when the stream has failed or is closed
	ending     sync.Once
	err        atomic.Pointer[error] // why it has failed
	closing    atomic.Bool           // Close was called
	linger     atomic.Int64          // of Close, in nanoseconds
	giveUp     *time.Timer           // ends a Close; set by BeginClose
	closed     chan struct{}         // closed when Close is over
	afterClose func()                // called when the socket is closed; may be nil
	finished   atomic.Bool           // CloseWrite was called
	peerLeft   atomic.Bool           // the peer has closed

	copies, peerReads bool // how offers are made; known from the negotiation on
	depth             int  // fetches at a time; known from the negotiation on
	pageable          bool // pages of control buffers may be given back

	runIn, runOut run // of data

	reading, writing            sync.Mutex // held by one Read, one Write
	reader, writer, idler       waiter
	urgentReader, closer        waiter
	urgentReading               sync.Mutex          // held by one ReadUrgent
	offered                     [MaxDescriptor]byte // of the memory of a Write; writing guards it
	readDeadline, writeDeadline deadline

	mu    sync.Mutex // guards what follows
	dead  bool       // nobody polls any more
	users int        // of memory of the stream, who hold no lock
	rest  rest       // of the control buffers
	in    inbound
	out   outbound // has a lock of its own

	counts counts
	idle   *time.Timer // gives memory back that nobody uses
}

// New prepares a stream on a socket that is not connected yet: it registers control buffers
// and posts the receives. The socket is the stream's from then on, also after an error,
// and ctx bounds the call.
//
// Errors: ErrNoBuffers and what else the socket says (wrapped).
//
// Source: [WSD §3.3], [WSD §4]
func New(ctx context.Context, sock *verbs.Socket, cfg Config) (*Stream, error) {
	var k socket
	if err := k.init(sock); err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	s := &Stream{
		sock: k,
		cfg:  cfg.withDefaults(sock.Options()),
		over: make(chan struct{}), closed: make(chan struct{}),
	}
	s.linger.Store(int64(s.cfg.Linger))
	s.pageable = isPageable(s)
	for _, w := range s.waiters() {
		w.init()
	}
	s.baton.init()
	s.initDeadlines()
	s.idle = time.AfterFunc(memoryRest, s.giveBack)
	s.idle.Stop()
	err := s.in.init(ctx, s)
	if err == nil {
		err = s.out.init(ctx, s)
	}
	if err != nil {
		return nil, errors.Join(noBuffers(err), s.Close())
	}
	return s, nil
}

// waiters are all who may wait.
func (s *Stream) waiters() []*waiter {
	return []*waiter{&s.reader, &s.writer, &s.idler, &s.urgentReader, &s.closer}
}

// Start negotiates: the active side, which is the one that connected, sends first. ctx
// bounds it. After an error only Close is of use.
//
// Errors: ErrNegotiation (wrapped), with ctx's error or what the peer did; ErrReset.
//
// Source: [WSD §3.3]
func (s *Stream) Start(ctx context.Context, active bool) error {
	err := s.negotiate(ctx, active)
	if err != nil {
		s.fail(err)
		return fmt.Errorf("%w: %w", ErrNegotiation, err)
	}
	s.running.Add(1)
	go s.attend()
	return nil
}

func (s *Stream) negotiate(ctx context.Context, active bool) error {
	own := s.negotiation()
	m := Message{Type: TypeNegotiateAck, Credits: uint16(own.Buffers), Payload: own.AppendTo(nil)}
	s.mu.Lock()
	s.in.first = TypeNegotiate
	if active {
		s.in.first = TypeNegotiateAck
	}
	s.mu.Unlock()
	if active {
		m.Type = TypeNegotiate
		if err := s.out.greet(&m); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { s.baton.signal(&s.reader) })
	defer stop()
	for s.awaited(&s.reader, func() bool { return s.in.met || ctx.Err() != nil }) {
	}
	switch err := s.failure(); {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if active {
		return nil
	}
	return s.out.greet(&m)
}

// negotiation is what this side tells the other.
func (s *Stream) negotiation() Negotiation {
	return Negotiation{
		Buffers: s.cfg.ReceiveBuffers, BufferSize: s.cfg.BufferSize, Offers: offers,
		CanRead: s.canRead(),
	}
}

// awaited waits for a while unless the condition, which is looked at with mu held, is met
// or the stream has failed: then it is false.
func (s *Stream) awaited(w *waiter, met func() bool) bool {
	w.flag.Store(false)
	s.mu.Lock()
	ok := met() || s.failure() != nil
	s.mu.Unlock()
	if !ok {
		s.wait(w)
	}
	return !ok
}

// canRead tells whether this side fetches by RDMA Read.
func (s *Stream) canRead() bool { return s.sock.canRead() && !s.cfg.NoRead }

// fail ends the stream with an error, which must not be nil; only the first counts.
func (s *Stream) fail(err error) {
	s.err.CompareAndSwap(nil, &err)
	s.end()
	for _, w := range s.waiters() {
		s.baton.signal(w)
	}
}

// end closes over.
func (s *Stream) end() { s.ending.Do(func() { close(s.over) }) }

// failure is why the stream has failed, or nil.
func (s *Stream) failure() error {
	if p := s.err.Load(); p != nil {
		return *p
	}
	return nil
}

// connectionError is what the end of the connection below means, of which err tells.
func connectionError(sock *socket, err error) error {
	if cause := sock.Err(); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: %w", ErrReset, err)
}

// noBuffers adds ErrNoBuffers to an error that says so in the provider's terms.
func noBuffers(err error) error {
	if errors.Is(err, verbs.ENOBUFS) {
		return fmt.Errorf("%w: %w", ErrNoBuffers, err)
	}
	return err
}

// errClosed is what calls get after Close.
var errClosed = net.ErrClosed
