package stream

import (
	"lwio/internal/host"
	"lwio/rdma"
)

// usage is what went through the control buffers, in one direction, since their pages were
// given back.
type usage struct {
	bytes int  // no more are counted once it is enough
	noted bool // it is, and the timer runs
}

// rest is since when nothing goes through the control buffers.
type rest struct {
	messages uint64 // when giveBack last looked
	ticks    int    // how often it has found no more since
}

// isPageable tells whether pages of control buffers may be given back.
func isPageable(s *Stream) bool { return s.sock.Service().Info().Caps.Has(rdma.CapPageable) }

// used notes a message of so many bytes. The caller holds the lock of the usage.
func (s *Stream) used(u *usage, size int) {
	if !u.noted && s.pageable {
		s.note(u, size)
	}
}

func (s *Stream) note(u *usage, size int) {
	if u.bytes += size + messageShare; u.bytes >= restWorth {
		u.noted = true
		s.idle.Reset(memoryRest)
	}
}

// restBuffersLocked gives the pages of the control buffers back if no message has come or
// gone for a while, and tells whether it is to be called again.
func (s *Stream) restBuffersLocked() bool {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	if !s.in.usage.noted && !s.out.usage.noted {
		return false
	}
	if n := s.counts.messagesIn.Load() + s.counts.messagesOut.Load(); n != s.rest.messages {
		s.rest = rest{messages: n}
		return true
	}
	s.rest.ticks++
	return s.rest.ticks < int(bufferRest/memoryRest) || !s.discardBuffersLocked()
}

// discardBuffersLocked gives the pages of the control buffers back, and has the provider do
// so with those that wait for messages. It is false if some of them are in use. The caller
// holds the lock of what leaves too.
func (s *Stream) discardBuffersLocked() bool {
	in := &s.in
	if !s.out.discardLocked() {
		return false
	}
	if in.items.len() == 0 && in.fetching.isIdle() && in.views == 0 {
		host.DiscardPages(in.area[len(in.area)-s.cfg.BufferSize:]) // what is fetched into
	}
	s.out.catchUpLocked() // for all to be among those that wait
	s.out.commitLocked()
	s.sock.TrimIdle()
	in.usage, s.out.usage = usage{}, usage{}
	return true
}

// discardLocked gives the pages of the buffers back that send, but for one that a ReadFrom
// has. It is false if something is on its way from them.
func (o *outbound) discardLocked() bool {
	switch {
	case o.lent == nil && len(o.free) == len(o.slots):
		host.DiscardPages(o.area)
	case o.lent != nil && len(o.free) == len(o.slots)-1:
		at := o.lent.sge[0].Offset
		host.DiscardPages(o.area[:at])
		host.DiscardPages(o.area[at+len(o.lent.buf):])
	default:
		return false
	}
	return true
}
