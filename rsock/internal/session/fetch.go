package session

import (
	"context"
	"fmt"

	"lwio/rdma"
	"lwio/rsock/spi"
)

// fetch is the one transfer into this side's memory that is in progress. Stream.mu guards
// it.
type fetch struct {
	state fetchState
	offer *incoming
	into  []byte
	whole []byte // of which into is the end, for a peer that closes
	got   int    // bytes, when it is over

	handle     spi.Handle // of into, if it is registered for this alone
	lent       int        // size of descriptor, while the peer may write
	descriptor [MaxDescriptor]byte
	over       spi.Overlapped
	sge        [1]spi.BufferEx

	temp       rdma.Memory // for small reads; nil if there is none
	tempHandle spi.Handle  // of temp, on a side that reads
	stuck      bool        // memory stays with the peer until the socket is closed
	used       bool        // since giveBack looked
}

type fetchState uint8

const (
	fetchNone     fetchState = iota
	fetchAside               // into memory of the stream
	fetchDirect              // into that of a Read
	fetchedDirect            // it is there
)

// busy tells whether something is on its way.
func (f *fetch) busy() bool { return f.state == fetchAside || f.state == fetchDirect }

// fetchLocked asks for as much of an offer as p takes, or as there is memory for. direct
// says that it comes into p, and then there is no error.
func (s *Stream) fetchLocked(t *incoming, p []byte) (direct bool, err error) {
	f := &s.in.fetch
	if s.abandonLocked(); f.state != fetchNone || s.in.views > 0 {
		return false, s.failure() // of the call before, or for a peer that closes
	}
	if err := s.failure(); err != nil {
		return false, err
	}
	want := s.portion(t, len(p))
	if want >= min(directRead, s.portion(t, directRead)) && s.fetchInto(t, p[:want], fetchDirect) {
		if f.state != fetchNone {
			return true, nil // also if the stream has failed meanwhile: the end of the fetch gives p back
		}
		return false, s.failure()
	}
	s.fetchAside(t)
	return false, s.failure()
}

// portion is how much is fetched at once, into so many bytes.
func (s *Stream) portion(t *incoming, room int) int {
	return int(min(t.rest, uint64(room), uint64(s.sock.Options().MaxRdmaSize)))
}

// fetchInto asks for so much of an offer as p takes, into memory that is registered for it
// alone. It is false if that is not possible.
//
// Source: [WSD §5.2], [WSD §5.3]
func (s *Stream) fetchInto(t *incoming, p []byte, state fetchState) bool {
	if t.size == 0 {
		return s.lend(t, p, state)
	}
	h, err := s.sock.RegisterMemory(context.Background(), p, spi.MemWrite)
	if err != nil {
		return false
	}
	s.in.fetch.handle = h
	s.ask(t, spi.BufferEx{Handle: h, Length: len(p)}, p, state)
	return true
}

// fetchAside asks for the next part of an offer into memory of the stream: what is kept for
// that, or, if none can be had, the end of the control buffers.
func (s *Stream) fetchAside(t *incoming) {
	size := s.cfg.BufferSize
	into, b := s.in.area[len(s.in.area)-size:], spi.BufferEx{Handle: s.in.handle, Offset: len(s.in.area) - size}
	if temp := s.temp(); temp != nil {
		into, b = temp, spi.BufferEx{Handle: s.in.fetch.tempHandle}
	}
	into = into[:s.portion(t, len(into))]
	switch {
	case t.size > 0:
		b.Length = len(into)
		s.ask(t, b, into, fetchAside)
	case !s.lend(t, into, fetchAside):
		s.refuseLocked(t)
	}
}

// temp is memory for small reads, or nil. It is registered here for a side that reads
// only: what is lent to the peer is the one region on its pages, so that the provider can
// take them from a peer that does not stop.
func (s *Stream) temp() []byte {
	f := &s.in.fetch
	f.used = true
	if f.temp == nil {
		if !s.cfg.Memory.take(fetchSize) {
			return nil
		}
		m, err := s.sock.Alloc(context.Background(), fetchSize)
		if err != nil {
			s.cfg.Memory.give(fetchSize)
			return nil
		}
		if s.canRead() {
			f.tempHandle, err = s.sock.RegisterMemory(context.Background(), m.Bytes(), spi.MemWrite)
		}
		if err != nil {
			_ = m.Close() // there is nothing else to do with it
			s.cfg.Memory.give(fetchSize)
			return nil
		}
		f.temp = m
		s.idle.Reset(memoryRest)
	}
	return f.temp.Bytes()
}

// ask posts an RDMA Read. What cannot be posted ends the stream.
func (s *Stream) ask(t *incoming, b spi.BufferEx, into []byte, state fetchState) {
	f := &s.in.fetch
	f.state, f.offer, f.into, f.sge[0] = state, t, into, b
	err := s.sock.RdmaRead(&f.over, f.sge[:], t.descriptor[:t.size], uint32(t.moved), 0)
	switch errno := spi.ErrnoOf(err); {
	case err == nil:
		return
	case errno == spi.EINVAL, errno == spi.EFAULT:
		s.fail(violation("%v: transfer %d: %v", TypeOffer, t.id, err))
	default:
		s.fail(connectionError(s.sock, err))
	}
	f.state = fetchNone
	s.release(f)
}

// lend asks the peer to write to p.
//
// Source: [WSD §5.3]
func (s *Stream) lend(t *incoming, p []byte, state fetchState) bool {
	f := &s.in.fetch
	n, err := s.sock.RegisterRdmaMemory(context.Background(), p, spi.MemWrite, f.descriptor[:])
	if err != nil {
		return false
	}
	f.state, f.offer, f.into, f.lent = state, t, p, n
	s.out.enqueue(Message{
		Type: TypeReady, Flags: FlagYours, Transfer: t.id, Total: uint64(len(p)), Descriptor: f.descriptor[:n],
	})
	s.out.flush()
	return true
}

// release takes memory back that was registered for the fetch alone. What does not come back
// ends the stream, and is neither read nor used again: the close of the socket, which ends
// the connection before, is the next to take it.
func (s *Stream) release(f *fetch) {
	var err error
	if f.handle != (spi.Handle{}) {
		err = s.sock.DeregisterMemory(f.handle)
		f.handle = spi.Handle{}
	}
	if f.lent > 0 {
		err = s.sock.DeregisterRdmaMemory(f.descriptor[:f.lent])
		f.lent = 0
	}
	if err != nil {
		f.stuck = true
		s.fail(fmt.Errorf("memory stays with the peer: %w", err))
	}
}

// fetched is called when an RDMA Read has ended, with mu held but by the Close of the
// socket.
func (s *Stream) fetched(over *spi.Overlapped) {
	if s.dead {
		return
	}
	n, err := over.Result()
	if err != nil {
		s.lost(err)
	}
	s.settleLocked(n)
}

// takeWritten takes in that the peer has written to memory that was lent to it.
//
// Source: [WSD §5.3]
func (s *Stream) takeWritten(m *Message) error {
	f := &s.in.fetch
	if f.lent == 0 || f.offer.id != m.Transfer || m.Total != uint64(len(f.into)) {
		return violation("%v: %d bytes of transfer %d, which were not asked for", m.Type, m.Total, m.Transfer)
	}
	s.settleLocked(len(f.into))
	return nil
}

// settleLocked ends the fetch, which brought n bytes.
func (s *Stream) settleLocked(n int) {
	f := &s.in.fetch
	t := f.offer
	if s.release(f); f.stuck {
		n = 0
	}
	t.rest -= uint64(n)
	t.moved += uint64(n)
	s.runIn.add(n, &s.runOut)
	s.counts.bytesFetched.Add(uint64(n))
	f.got = n
	if f.state == fetchDirect {
		f.state = fetchedDirect
	} else {
		f.state = fetchNone
		s.storeLocked(t, n)
	}
	switch {
	case t.rest == 0, t.withdrawn:
		s.finishLocked(t, 0)
	case s.in.discard:
		s.finishLocked(t, t.rest)
	}
	f.offer, f.into = nil, nil
	s.baton.signal(&s.reader)
	s.baton.signal(&s.closer)
}

// storeLocked leaves what was fetched into memory of the stream to be read.
func (s *Stream) storeLocked(t *incoming, n int) {
	f, in := &s.in.fetch, &s.in
	for i := range in.items.len() {
		it := in.items.at(i)
		if it.offer != t {
			continue
		}
		if f.whole == nil {
			it.data = f.into[:n]
			break
		}
		if n == len(f.into) {
			unread := len(it.data) // of what came before, which is in whole too
			if released := s.emptyLocked(it); released > 0 {
				s.out.released(released)
			}
			it.data = f.whole[len(f.whole)-n-unread:]
		}
	}
	f.whole = nil
}

// abandonLocked ends a fetch of a connection that is over, if the peer was to write.
func (s *Stream) abandonLocked() {
	if f := &s.in.fetch; f.lent > 0 && s.failure() != nil {
		s.settleLocked(0)
	}
}

// takeFetchedLocked ends the fetch into a Read's memory.
func (s *Stream) takeFetchedLocked() int {
	f := &s.in.fetch
	f.state = fetchNone
	s.reader.bulk = s.runIn.isBulk()
	s.trimLocked()
	s.afterLocked()
	return f.got
}
