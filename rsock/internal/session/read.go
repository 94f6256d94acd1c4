package session

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
		n, fetching, err := s.readLocked(p[total:])
		total += n
		more := n > 0 && s.followsLocked(len(p)-total)
		s.mu.Unlock()
		switch {
		case more:
			continue
		case total > 0 && !fetching:
			return total + s.arrived(), nil
		case err != nil || len(p) == 0:
			return 0, err
		case fetching:
			late.look(s, &s.readDeadline)
		}
		s.wait(&s.reader)
		if !fetching {
			if n := s.arrived(); n > 0 {
				return n, nil
			}
		}
	}
}

// followsLocked tells whether an offer is here that is worth a fetch into so many bytes.
func (s *Stream) followsLocked(room int) bool {
	in := &s.in
	if in.items.len() == 0 || room < directRead {
		return false
	}
	it := in.items.at(0)
	return it.offer != nil && len(it.data) == 0 && it.offer.rest >= directRead && in.fetch.state == fetchNone
}

// readLocked reads what is here; else it asks for what there is to be fetched, or leaves p
// to data that arrives, and the caller has to wait. fetching says that p may not be given
// back.
func (s *Stream) readLocked(p []byte) (n int, fetching bool, err error) {
	in := &s.in
	s.abandonLocked()
	switch in.fetch.state {
	case fetchDirect:
		return 0, true, nil
	case fetchedDirect:
		if n := s.takeFetchedLocked(); n > 0 {
			return n, false, nil
		}
	default:
	}
	if err := s.readableLocked(); err != nil || len(p) == 0 {
		return 0, false, err
	}
	s.trimLocked()
	if n = s.copyLocked(p); n > 0 {
		return n, false, nil
	}
	if in.items.len() > 0 {
		fetching, err = s.fetchLocked(in.items.at(0).offer, p)
		return 0, fetching, err
	}
	if err := s.endedLocked(); err != nil {
		return 0, false, err
	}
	in.dst, in.got = p, 0
	return 0, false, nil
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
		if it.offer != nil && !it.offer.over {
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
	if it := s.in.items.at(0); len(it.data) == 0 && it.offer != nil && it.offer.over {
		s.in.items.pop()
	}
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
		if t := it.offer; t != nil && !t.over && !(in.fetch.busy() && in.fetch.offer == t) {
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
