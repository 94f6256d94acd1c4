package stream

import "lwio/rdma"

// What is asked for goes ahead of what is here: each Read has as many fetches under way as
// there are offers to fill its memory, so that the peer need not wait from one to the next.

// maxDirect is how many fetches a Read may have under way.
const maxDirect = 4

// fetchDepth is how many fetches there may be at a time: one where a read is but a copy, or
// where the peer writes, and no more than leave room for a message and an RDMA Write.
func (s *Stream) fetchDepth() int {
	if s.sock.Service().Info().Caps.Has(rdma.CapDirectAlloc) || !s.canRead() {
		return 1
	}
	return min(maxDirect, max(s.sock.Options().SendDepth-2, 1))
}

// fillLocked fills p with what is here, and asks for what is on offer as far as p takes it
// and it is worth it, which is more where p is the rest of a Read. fetching says that p may
// not be given back.
func (s *Stream) fillLocked(p []byte, follows bool) (n int, fetching bool) {
	g := &s.in.fetching
	for {
		s.askLocked(p[n:], follows || n > 0)
		used := g.used
		k := s.takeLocked(p[n:])
		if n += k; k == 0 && g.used == used || n == len(p) {
			return n, g.used > 0
		}
	}
}

// askLocked asks for what is on offer, straight into p, behind what is here and what was
// asked for.
//
// Source: [WSD §5.2]
func (s *Stream) askLocked(p []byte, follows bool) {
	in := &s.in
	if in.views > 0 || s.failure() != nil {
		return
	}
	at := 0
	for i := range in.items.len() {
		it := in.items.at(i)
		at += len(it.data)
		t := it.offer
		if t == nil {
			continue
		}
		at += in.fetching.placed(t)
		for t.left() > 0 {
			n := s.askDirect(t, p[min(at, len(p)):], follows || at > 0)
			if n == 0 {
				return
			}
			at += n
		}
	}
}

// askDirect asks for as much of an offer as p takes, if it is worth it, and returns how much
// that is.
func (s *Stream) askDirect(t *incoming, p []byte, follows bool) int {
	g, least := &s.in.fetching, directRead
	if !follows {
		least = min(least, s.portion(t, directRead))
	}
	n := s.portion(t, len(p))
	if n < least || g.busy >= s.depth || g.used == maxDirect {
		return 0
	}
	if f := g.next(); !s.fetchInto(f, t, p[:n]) || !f.busy {
		return 0
	}
	g.used++
	return n
}

// takeLocked takes what is here, in the order of the stream, for a Read with such memory. A
// fetch that brought nothing is over, whatever is missing before it.
func (s *Stream) takeLocked(p []byte) (n int) {
	in, g := &s.in, &s.in.fetching
	for {
		n += s.copyLocked(p[n:])
		f := g.oldest()
		if g.used == 0 || f.busy {
			return n
		}
		if it := in.items.at(0); f.got > 0 && (it.offer != f.offer || len(it.data) > 0 || g.isAside(f.offer)) {
			return n
		}
		n += f.got
		s.dropOldestLocked()
	}
}

// takeLateLocked takes what has come into p of a Read whose time is over, or drops it after
// CloseRead.
func (s *Stream) takeLateLocked(p []byte) (n int) {
	g := &s.in.fetching
	if !s.in.discard {
		if g.used > 0 {
			n = s.takeLocked(p)
		}
		return n
	}
	for g.used > 0 && !g.oldest().busy {
		s.dropOldestLocked()
	}
	return 0
}

// dropOldestLocked ends the first of the fetches into a Read's memory, which is over.
func (s *Stream) dropOldestLocked() {
	g := &s.in.fetching
	f := g.oldest()
	f.offer, f.into = nil, nil
	g.first, g.used = (g.first+1)%maxDirect, g.used-1
	s.reader.bulk = s.runIn.isBulk()
	s.trimLocked()
	s.afterLocked()
}
