package stream

import (
	"io"
	"os"
	"time"
)

// Read reads what there is of the peer's stream, at least a byte, and waits for that if it
// has to. Small data is copied into p as it arrives; of what the peer offers as much as p
// takes is fetched straight into p, if p is large enough for that to be worth it. p is the
// caller's again when Read returns, which can be late if memory of p is being fetched into.
//
// Errors: io.EOF after the end of the peer's stream, and after CloseRead;
// os.ErrDeadlineExceeded; net.ErrClosed after Close; ErrReset; ErrProtocol. What arrived
// before an error is read first.
//
// Source: [WSD §5.1], [WSD §5.2], [WSD §7]
func (s *Stream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	n, err := s.read(p)
	s.counts.bytesIn.Add(uint64(n))
	return n, err
}

func (s *Stream) read(p []byte) (total int, err error) {
	var late lateness
	defer late.stop()
	for {
		s.reader.flag.Store(false)
		s.mu.Lock()
		n, fetching, err := s.readLocked(p[total:], total > 0)
		total += n
		s.mu.Unlock()
		switch {
		case fetching:
			late.look(s, &s.readDeadline)
		case total > 0:
			return total, nil
		case err != nil || len(p) == 0:
			return 0, err
		}
		s.wait(&s.reader)
		if !fetching {
			if n := s.arrived(); n > 0 {
				return n, nil
			}
		}
	}
}

// readLocked reads what is here, and asks for what there is to be fetched; if that is not
// worth it, and this is not the rest of a Read, it leaves p to data that arrives. Then the
// caller has to wait. fetching says that p may not be given back.
func (s *Stream) readLocked(p []byte, follows bool) (n int, fetching bool, err error) {
	g := &s.in.fetching
	s.abandonLocked()
	if err := s.readableLocked(); err != nil || len(p) == 0 {
		n = s.takeLateLocked(p)
		return n, g.used > 0, err
	}
	s.trimLocked()
	if n, fetching = s.fillLocked(p, follows); n > 0 || fetching || follows {
		return n, fetching, nil
	}
	return 0, false, s.demandLocked(p)
}

// demandLocked has something come that a Read with such memory can take.
func (s *Stream) demandLocked(p []byte) error {
	in := &s.in
	if in.items.len() == 0 {
		err := s.endedLocked()
		if err == nil {
			in.dst, in.got = p, 0
		}
		return err
	}
	if t := in.items.at(0).offer; t.left() > 0 && in.fetching.busy == 0 && in.views == 0 && s.failure() == nil {
		s.fetchAside(t)
	}
	return s.failure()
}

// arrived takes p back from data that arrives, and returns how much there was.
func (s *Stream) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.in.got
	s.in.dst, s.in.got = nil, 0
	return n
}

// readableLocked is why nothing can be read, whatever is here.
func (s *Stream) readableLocked() error {
	switch {
	case s.closing.Load():
		return errClosed
	case s.readDeadline.over.Load():
		return os.ErrDeadlineExceeded
	case s.in.discard:
		return io.EOF
	}
	return nil
}

// endedLocked is why nothing more comes, if that is so.
func (s *Stream) endedLocked() error {
	if s.in.eof {
		return io.EOF
	}
	return s.failure()
}

// copyLocked copies what is here to p, and gives credits back.
func (s *Stream) copyLocked(p []byte) (n int) {
	in, released := &s.in, 0
	for n < len(p) && in.items.len() > 0 {
		it := in.items.at(0)
		k := copy(p[n:], it.data)
		n += k
		if it.data = it.data[k:]; len(it.data) > 0 {
			break
		}
		released += s.emptyLocked(it)
		if it.offer != nil && !s.isDoneLocked(it.offer) {
			break
		}
		in.items.pop()
	}
	if released > 0 {
		s.out.released(released)
	}
	return n
}

// trimLocked drops the first part of the stream if it is read.
func (s *Stream) trimLocked() {
	if s.in.items.len() == 0 {
		return
	}
	if it := s.in.items.at(0); len(it.data) == 0 && it.offer != nil && s.isDoneLocked(it.offer) {
		s.in.items.pop()
	}
}

// isDoneLocked tells whether nothing more comes of an offer, and its Read has what came.
func (s *Stream) isDoneLocked(t *incoming) bool {
	g := &s.in.fetching
	return t.over && (g.used == 0 || g.oldest().offer != t)
}

// emptyLocked drops the memory of what was read, and returns how many credits that frees.
func (s *Stream) emptyLocked(it *item) int {
	it.data = nil
	if it.chunk == nil {
		return 0
	}
	it.chunk.drop()
	it.chunk = nil
	return 1
}

// CloseRead ends reading: Read returns io.EOF, and what arrives from then on is dropped, as
// is what has arrived.
func (s *Stream) CloseRead() error {
	if s.closing.Load() {
		return errClosed
	}
	s.mu.Lock()
	s.in.discard = true
	s.discardLocked()
	s.mu.Unlock()
	s.baton.signal(&s.reader)
	s.baton.signal(&s.urgentReader)
	return nil
}

// discardLocked drops what has arrived, but for what is being fetched, which is dropped at
// its end.
func (s *Stream) discardLocked() {
	in, released := &s.in, 0
	for i := range in.items.len() {
		it := in.items.at(i)
		released += s.emptyLocked(it)
		if t := it.offer; t != nil && !t.over && t.coming == 0 {
			s.finishLocked(t, t.rest)
		}
	}
	if released > 0 {
		s.out.released(released)
	}
	s.out.flush()
}

// lateness breaks the connection off if a call whose time is over cannot return, as the
// peer, or the provider, has memory of it.
//
// Source: [WSD §7]
type lateness struct{ timer *time.Timer }

// look starts the clock once the call should have ended.
func (l *lateness) look(s *Stream, d *deadline) {
	if l.timer == nil && (d.over.Load() || s.closing.Load()) {
		l.timer = time.AfterFunc(s.cfg.Linger, func() { s.fail(errStuck) })
	}
}

// stop ends it.
func (l *lateness) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
