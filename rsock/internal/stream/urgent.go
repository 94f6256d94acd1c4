package stream

// urgent is urgent data that is not read. Stream.mu guards it.
type urgent struct {
	parts fifo[[]byte]
	size  int // bytes of them
}

// takeUrgent keeps urgent data. As a program may never ask for any, it holds no credit, and
// what is new pushes out what is old, as it does with TCP.
//
// Source: [WSD §5.5]
func (s *Stream) takeUrgent(p []byte) error {
	u := &s.in.urgent
	if s.in.eof {
		return violation("%v after the end of the stream", TypeUrgent)
	}
	if s.in.discard {
		return nil
	}
	u.parts.push(append([]byte(nil), p...))
	u.size += len(p)
	for u.parts.len() > 1 && (u.size > urgentLimit || u.parts.len() > urgentParts) {
		s.counts.urgentDropped.Add(uint64(len(*u.parts.at(0))))
		u.dropFirst()
	}
	s.baton.signal(&s.urgentReader)
	return nil
}

func (u *urgent) dropFirst() {
	u.size -= len(*u.parts.at(0))
	u.parts.pop()
}

// WriteUrgent sends p beside the stream: it reaches the peer's ReadUrgent also while data
// that was written before waits to be read. The peer keeps 16 KiB of it; what is older, and
// not read, is lost. p is copied. Errors are those of Write.
//
// Source: [WSD §5.5]
func (s *Stream) WriteUrgent(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	n := 0
	for n < len(p) {
		part := p[n:min(len(p), n+s.out.room(0))]
		if err := s.send(&Message{Type: TypeUrgent, Payload: part}, passing); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, s.writable()
}

// ReadUrgent waits for urgent data, and reads what one message of the peer had, or what is
// left of it. Errors are those of Read.
//
// Source: [WSD §5.5]
func (s *Stream) ReadUrgent(p []byte) (n int, err error) {
	s.urgentReading.Lock()
	defer s.urgentReading.Unlock()
	u := &s.in.urgent
	for s.awaited(&s.urgentReader, func() bool {
		if err = s.readableLocked(); err != nil || len(p) == 0 {
			return true
		}
		if u.parts.len() == 0 {
			err = s.endedLocked()
			return err != nil
		}
		part := u.parts.at(0)
		n = copy(p, *part)
		u.size -= n
		if *part = (*part)[n:]; len(*part) == 0 {
			u.parts.pop()
		}
		return true
	}) {
	}
	if n == 0 && err == nil && len(p) > 0 {
		err = s.failure()
	}
	return n, err
}
