package stream

import (
	"context"
	"sync"
	"time"
)

// CloseWrite ends this side's stream: the peer reads io.EOF after what was written.
//
// Errors: net.ErrClosed after Close, and what the stream has failed with.
//
// Source: [WSD §7]
func (s *Stream) CloseWrite() error {
	if s.closing.Load() {
		return errClosed
	}
	if s.finished.Swap(true) {
		return nil
	}
	s.baton.signal(&s.writer) // a Write that waits gives up
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closing.Load() {
		return errClosed // which says that the stream ends, or has done so
	}
	s.out.enqueue(Message{Type: TypeShutdown})
	s.out.flush()
	return s.failure()
}

// takeShutdown takes in that the peer's stream ends, and perhaps that it has closed, or
// has all that this side wrote.
//
// Source: [WSD §7]
func (s *Stream) takeShutdown(m *Message) error {
	in := &s.in
	switch m.Flags {
	case FlagTaken:
		if !s.closing.Load() || in.taken {
			return violation("%v: an answer to nothing", m.Type)
		}
		in.taken = true
		s.baton.signal(&s.closer)
		return nil
	case FlagClosing:
		if in.left {
			return violation("%v: for the second time", m.Type)
		}
		in.left = true
		s.peerLeft.Store(true)
		s.out.dropAll(ErrPeerClosed)
		s.baton.signal(&s.writer)
	default:
		if in.eof {
			return violation("%v: for the second time", m.Type)
		}
	}
	in.eof = true
	s.baton.signal(&s.reader)
	s.baton.signal(&s.urgentReader)
	return nil
}

// SetLinger sets how long Close waits for the peer to take what was written; 0 breaks the
// connection off instead, and the peer sees a reset. A negative one is Config.Linger.
func (s *Stream) SetLinger(d time.Duration) {
	if d < 0 {
		d = s.cfg.Linger
	}
	s.linger.Store(int64(d))
}

// Close ends the connection. Calls that wait end; what was written before is delivered,
// though not necessarily read, when it returns, if the peer lives and takes it in time. A
// second Close waits for the first and fails with net.ErrClosed.
//
// Source: [WSD §7]
func (s *Stream) Close() error {
	if !s.BeginClose() {
		<-s.closed
		return errClosed
	}
	return s.EndClose()
}

// BeginClose is the first part of Close, which does not wait: calls end, and the time of
// SetLinger begins. EndClose is the rest. It is false if somebody has called it before.
func (s *Stream) BeginClose() bool {
	if s.closing.Swap(true) {
		return false
	}
	linger := time.Duration(s.linger.Load())
	if linger == 0 {
		s.fail(errClosed)
	}
	s.giveUp = time.AfterFunc(max(linger, time.Millisecond), func() { s.fail(errLinger) })
	for _, w := range s.waiters() {
		s.baton.signal(w)
	}
	return true
}

// EndClose does what BeginClose has left of Close; it is called once, by anybody.
func (s *Stream) EndClose() error {
	defer close(s.closed)
	for _, calls := range []*sync.Mutex{&s.writing, &s.reading, &s.urgentReading} {
		awaitCalls(calls) // those that come later do nothing
	}
	s.part()
	s.giveUp.Stop()
	return s.tearDown()
}

// awaitCalls waits for the calls that hold a lock.
func awaitCalls(calls *sync.Mutex) {
	calls.Lock()
	defer calls.Unlock()
}

// part tells the peer that this side closes, and waits until it has all that was written.
func (s *Stream) part() {
	if !s.isStarted() || s.failure() != nil {
		return
	}
	s.mu.Lock()
	s.in.discard = true
	s.discardLocked()
	s.mu.Unlock()
	sent := false
	for s.awaited(&s.closer, func() bool {
		if s.in.fetching.busy > 0 {
			return false // into memory that goes; the peer may not end it before
		}
		if !sent {
			sent = true
			s.out.enqueue(Message{Type: TypeShutdown, Flags: FlagClosing})
			s.out.flush()
		}
		return s.in.taken
	}) {
	}
	if s.failure() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Linger)
	defer cancel()
	_ = s.sock.Disconnect(ctx) // Close of the socket does what is left
}

// isStarted tells whether the session is negotiated.
func (s *Stream) isStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in.met
}

// tearDown ends all that the stream has.
func (s *Stream) tearDown() error {
	s.fail(errClosed)
	s.running.Wait()
	s.baton.stop()
	s.readDeadline.stop()
	s.writeDeadline.stop()
	s.mu.Lock()
	s.dead = true
	used := s.users > 0
	s.idle.Stop()
	s.mu.Unlock()
	if used {
		s.hangUp() // and leave does the rest
		return nil
	}
	return s.closeSocket()
}

// closeSocket closes the socket, and says so.
func (s *Stream) closeSocket() error {
	err := s.sock.Close()
	s.settleBudget()
	if s.afterClose != nil {
		s.afterClose()
	}
	return err
}

// AfterClose has f called once the socket is closed, which can be after Close where memory
// of the stream is still in use then. It must be called before the stream is shared.
func (s *Stream) AfterClose(f func()) { s.afterClose = f }

// Abort is Close without regard for what was written.
func (s *Stream) Abort() {
	s.linger.Store(0)
	_ = s.Close() // which says only what the provider could not tidy up
}
