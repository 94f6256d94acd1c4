package stream

import (
	"errors"
	"io"
)

// ReadFrom writes what r gives until its end, and returns how many bytes that were. While r
// gives little at a time, as much as a control message takes is asked of it; once it has
// filled that, it reads into the memory that large data is offered from. So a copy that
// waits for a silent r holds none of that memory.
//
// Errors: those of r.Read, but for io.EOF, and those of Write.
func (s *Stream) ReadFrom(r io.Reader) (n int64, err error) {
	more := false
	for err == nil {
		var k int
		if more {
			k, more, err = s.readPart(r)
		} else {
			k, more, err = s.readLittle(r)
		}
		n += int64(k)
	}
	if err == io.EOF { //nolint:errorlint // as io.Reader says
		err = nil
	}
	return n, err
}

// readLittle reads once from r what a control message takes, and writes it. more says that r
// has filled that.
func (s *Stream) readLittle(r io.Reader) (n int, more bool, err error) {
	if err := s.writable(); err != nil {
		return 0, false, err
	}
	room := min(s.out.room(0), s.cfg.Threshold)
	if d, ok := s.out.draft(room); ok {
		k, err := r.Read(d.data)
		n, failed := s.sendDraft(&d, k)
		if failed != nil {
			err = failed
		}
		return n, k == room, err
	}
	c := newChunk(room)
	defer c.drop()
	k, err := r.Read(c.buf[:room])
	n, failed := s.Write(c.buf[:k])
	if failed != nil {
		err = failed
	}
	return n, k == room, err
}

// sendDraft sends the first n bytes of a message that r has filled.
func (s *Stream) sendDraft(d *draft, n int) (int, error) {
	if n == 0 {
		d.drop()
		return 0, nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.sendData(func() bool { return d.trySend(n) }); err != nil {
		d.drop()
		return 0, err
	}
	s.runOut.add(n, &s.runIn)
	s.counts.bytesOut.Add(uint64(n))
	return n, nil
}

// readPart reads once from r into memory to offer from, and writes what that gives. more
// says that r has filled that. No lock is held while r reads, nor is Close held up then,
// which leaves the memory to the last who uses it.
func (s *Stream) readPart(r io.Reader) (n int, more bool, err error) {
	g, err := s.borrowPiece()
	switch {
	case errors.Is(err, errNoStage):
		return s.readLittle(r)
	case err != nil:
		return 0, false, err
	}
	defer s.leave()
	k, err := r.Read(g.buf)
	more = k == len(g.buf)
	s.writing.Lock()
	defer s.writing.Unlock()
	if failed := s.writable(); failed != nil {
		s.out.give(g)
		return 0, false, failed
	}
	if k > s.cfg.Threshold {
		failed := s.offerPiece(g, k, nil)
		if failed != nil {
			return 0, false, failed
		}
		s.counts.bytesOut.Add(uint64(k))
		return k, more, err
	}
	k, failed := s.writeSmall(g.buf[:k])
	s.out.give(g)
	s.counts.bytesOut.Add(uint64(k))
	if failed != nil {
		err = failed
	}
	return k, more, err
}

// borrowPiece gives memory to offer from, which stays until leave.
func (s *Stream) borrowPiece() (*piece, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	g, err := s.awaitPiece()
	if err == nil && !s.enter() {
		s.out.give(g)
		err = errClosed
	}
	return g, err
}

// WriteTo writes to w what comes until the end of the peer's stream, from where it arrived,
// and returns how many bytes that were.
//
// Errors: those of w.Write, and those of Read, but for io.EOF. What w did not take is lost.
func (s *Stream) WriteTo(w io.Writer) (n int64, err error) {
	for err == nil {
		var k int
		k, err = s.writePart(w)
		n += int64(k)
	}
	if err == io.EOF { //nolint:errorlint // which only Read's end of the stream is here
		err = nil
	}
	return n, err
}

// writePart waits for data and gives it to w.
func (s *Stream) writePart(w io.Writer) (n int, err error) {
	p, c, err := s.borrowData()
	if err != nil {
		return 0, err
	}
	defer s.leave()
	n, err = w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	s.counts.bytesIn.Add(uint64(n))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in.views--; c != nil {
		c.drop()
		s.out.released(1)
	}
	s.baton.signal(&s.reader) // a Read that came meanwhile could not fetch
	return n, err
}

// borrowData waits for data and takes it out of the stream; it stays until leave. c is the
// chunk that it is in, if any.
func (s *Stream) borrowData() (p []byte, c *chunk, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		s.reader.flag.Store(false)
		s.mu.Lock()
		p, c, err = s.viewLocked()
		s.mu.Unlock()
		if len(p) > 0 || err != nil {
			return p, c, err
		}
		s.wait(&s.reader)
	}
}

// viewLocked takes the first data out of the stream, or asks for it.
func (s *Stream) viewLocked() (p []byte, c *chunk, err error) {
	in := &s.in
	if err := s.readableLocked(); err != nil {
		return nil, nil, err
	}
	s.trimLocked()
	if in.items.len() == 0 {
		return nil, nil, s.endedLocked()
	}
	it := in.items.at(0)
	if len(it.data) > 0 {
		p, c = it.data, it.chunk
		it.data, it.chunk = nil, nil
		if in.views++; it.offer == nil {
			in.items.pop()
		}
		s.users++
		return p, c, nil
	}
	s.abandonLocked()
	if in.fetching.isIdle() && in.views == 0 && s.failure() == nil {
		s.fetchAside(it.offer)
	}
	return nil, nil, s.failure()
}

// enter keeps the memory of the stream beyond Close, until leave. It is false if that is
// gone.
func (s *Stream) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return false
	}
	s.users++
	return true
}

// leave ends enter. The last one after Close does what that left undone.
func (s *Stream) leave() {
	s.mu.Lock()
	s.users--
	last := s.dead && s.users == 0
	s.mu.Unlock()
	if last {
		_ = s.closeSocket() // there is nobody to tell
	}
}
