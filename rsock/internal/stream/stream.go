package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"lwio/rsock/internal/verbs"
)

// Stream is one side of a connection: a stream of bytes in each direction. All methods are
// safe for concurrent use, but for Start, which is called once.
//
// Source: [WSD §4], [WSD §5]
type Stream struct {
	reader // Read, WriteTo, ReadUrgent, CloseRead, SetReadDeadline
	writer // Write, ReadFrom, WriteUrgent, CloseWrite, SetWriteDeadline
	closer // Close, BeginClose, EndClose, Abort, SetLinger, AfterClose

	c       connection
	tx      sender
	stage   stage
	offers  offers
	rx      receiver
	trimmer trimmer
}

// New prepares a stream on a socket that is not connected yet: it registers control buffers
// and posts the receives. The socket is the stream's from then on, also after an error. ctx
// bounds the call.
//
// Errors: ErrNoBuffers, and those of the socket (wrapped).
//
// Source: [WSD §3.3], [WSD §4]
func New(ctx context.Context, sock *verbs.Socket, cfg Config) (*Stream, error) {
	s := new(Stream)
	c := &s.c
	if err := c.init(sock, &cfg); err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	c.progress.init(&s.rx, c.cfg.BusyPoll)
	s.stage.c = c
	s.offers.init(c, &s.tx, &s.stage)
	s.reader.init(c, &s.rx)
	s.writer.init(c, &s.rx, &s.tx, &s.offers, &s.stage)
	s.closer.init(c, &s.rx, &s.tx, &s.offers, &s.stage, &s.reader, &s.writer)
	s.trimmer = trimmer{c: c, rx: &s.rx, tx: &s.tx, stage: &s.stage}
	c.trimTimer = time.AfterFunc(trimInterval, s.trimmer.run)
	c.trimTimer.Stop()
	err := s.rx.init(ctx, c, &s.tx, &s.offers, &s.closer)
	if err == nil {
		err = s.tx.init(ctx, c)
	}
	if err != nil {
		return nil, errors.Join(noBuffers(err), s.Close())
	}
	return s, nil
}

// Start negotiates. The active side is the one that connected, and sends first. ctx bounds
// the call. After an error only Close is of use.
//
// Errors: ErrNegotiation (wrapped), with the error of ctx or that of the stream.
//
// Source: [WSD §3.3]
func (s *Stream) Start(ctx context.Context, active bool) error {
	if err := s.rx.negotiate(ctx, active); err != nil {
		s.c.fail(err)
		return fmt.Errorf("%w: %w", ErrNegotiation, err)
	}
	s.closer.running.Go(func() {
		s.c.progress.attend(s.c.over)
		s.c.hangUp()
	})
	return nil
}

// Stats returns the counters.
func (s *Stream) Stats() Stats { return s.c.counts.stats() }

// noBuffers adds ErrNoBuffers to an error that is about it in the terms of the socket.
func noBuffers(err error) error {
	if errors.Is(err, verbs.ENOBUFS) {
		return fmt.Errorf("%w: %w", ErrNoBuffers, err)
	}
	return err
}

// errClosed is the error of calls after Close.
var errClosed = net.ErrClosed
