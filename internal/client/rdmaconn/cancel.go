package rdmaconn

import (
	"runtime"
	"slices"

	"lwio/internal/wire"
)

// CANCEL is for all I/O of a file id, not for one request. So it is sent when no operation waits
// for any I/O of the file: when the last operation on the file has given up, and when the file is
// closed. The server finishes the requests that it has begun. All entries stay taken until it has
// answered. [OP-94a] [OP-94c] [OP-113]

// cancelWish is a CANCEL that waits for an entry.
type cancelWish struct {
	fid uint16
	all bool // also of requests that an operation waits for
}

// Cancel stops the I/O of a file id at the server, if some was given up and no operation waits
// for any. It does not wait: without a free credit the message goes out with the next credit that
// is given back, before new requests. Precondition: the caller holds up the teardown.
//
// Source: [LWIO §Cancel], [OP-66], [OP-68], [OP-94a]
func (c *Conn) Cancel(fid uint16) { c.credits.cancel(fid, false) }

// cancel is Conn.Cancel; with all it also stops requests that an operation waits for.
func (k *credits) cancel(fid uint16, all bool) {
	if fid == 0 || k.life.IsDown() {
		return
	}
	w := cancelWish{fid, all}
	k.mu.Lock()
	if !slices.Contains(k.cancels, w) {
		k.cancels = append(k.cancels, w)
	}
	k.mu.Unlock()
	k.pump()
}

// postCancel sends CANCEL in entry s. False says that there is nothing to cancel, or that an
// operation waits. CANCEL does not stop a request that is queued later.
//
// Source: [LWIO §Cancel], [OP-94a]
func (q *sendQueue) postCancel(s *Request, w cancelWish) bool {
	return q.postDetached(s, kindControl, func() (wire.Header, bool) {
		h, ok := wire.NewCancel(w.fid), q.cancellableLocked(w)
		if ok {
			q.counts.Cancels.Add(1)
		}
		return h, ok
	})
}

// cancellableLocked reports whether there is I/O to cancel. Requests that were given up are not
// looked at again.
func (q *sendQueue) cancellableLocked(w cancelWish) bool {
	var found []*Request
	for i := range q.table.entries {
		s := &q.table.entries[i]
		if s.fid != w.fid {
			continue
		}
		switch s.load().state() {
		case requestAbandoned:
			found = append(found, s)
		case requestPending:
			if !w.all {
				return false
			}
			found = append(found, s)
		}
	}
	if w.all {
		return len(found) > 0
	}
	for _, s := range found {
		s.fid = 0
	}
	return len(found) > 0
}

// recall settles the request of t, so that its answer does not reach the operation. False says
// that t came back, or is about to.
func (t *Ticket) recall() bool {
	for s := t.request; ; runtime.Gosched() {
		w := s.load()
		switch {
		case t.late.Load() || w.generation() != t.generation:
			return false
		case w.state() == requestDead:
			return true
		case w.state() == requestPending && s.settle(w):
			s.ticket = nil
			return true
		}
	}
}

// GiveUp ends the wait of an operation. The server may go on with the request: its entry stays
// taken and its Buffer busy until the answer. Memory that is not part of a Buffer belongs to the
// caller again. False says that t came back, or is about to. Precondition: the caller holds up the
// teardown.
//
// A request is dead before its connection is down if the server has answered it against the protocol. The
// teardown, which follows, ends its epoch.
//
// Source: [LWIO §Cancel], [OP-94a], [OP-113]
func (c *Conn) GiveUp(t *Ticket) bool {
	if !t.recall() {
		return false
	}
	s := t.request
	round, dead := s.round, s.load().state() == requestDead
	s.leave(t.Owner, c.count.ticks.Load())
	if !dead {
		s.abandon()
	}
	c.send.awaitPost(round)
	t.request = nil
	return true
}

// TakeBack ends the request of an operation whose connection is down, and returns the number of
// its message. The memory of the caller belongs to the caller again. False says that t came back, or is
// about to. Precondition: the caller holds up the teardown.
func (c *Conn) TakeBack(t *Ticket) (number uint64, ok bool) {
	if !t.recall() {
		return 0, false
	}
	s := t.request
	if c.sealing.wanted && s.load().state() != requestDead {
		c.send.awaitPost(s.round)
	}
	number = s.number
	s.kill()
	t.request = nil
	return number, true
}
