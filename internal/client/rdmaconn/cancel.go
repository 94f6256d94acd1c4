package rdmaconn

import (
	"runtime"
	"slices"

	"lwio/internal/wire"
)

// CANCEL is for all I/O of a file id, not for one request. So it is sent when no call
// waits for any of it: when the last of the calls on the file, or of those that were in
// flight together, has given up, and when the file is closed. Requests that the server has begun are
// done all the same; the entries of all are taken until it has answered.
// [OP-94a] [OP-94c] [OP-113]

// cancelWish is a CANCEL that waits for an entry.
type cancelWish struct {
	fid uint16
	all bool // also of requests that a call waits for
}

// Cancel stops the I/O of a file id at the server, if there is any that was given up
// and none that a call waits for; with all, all requests. It does not wait:
// without a free credit the message goes out with the next that is given back, before
// new requests. Precondition: Life.Mu is held for reading.
//
// Source: [LWIO §Cancel], [OP-66], [OP-68], [OP-94a]
func (k *credits) Cancel(c *Conn, fid uint16, all bool) {
	if fid == 0 || c.IsDown() {
		return
	}
	w := cancelWish{fid, all}
	k.Mu.Lock()
	if !slices.Contains(k.cancels, w) {
		k.cancels = append(k.cancels, w)
	}
	k.Mu.Unlock()
	k.pump(c)
}

// postCancel sends CANCEL in entry s, unless there is nothing to cancel any more, or
// a call waits for some of it. It looks where messages get their order: a request
// queued later is not cancelled.
//
// Source: [LWIO §Cancel], [OP-94a]
func (c *Conn) postCancel(s *Request, w cancelWish) bool {
	s.Kind, s.Own = kindControl, false
	c.Queue.Mu.Lock()
	if c.IsDown() || !c.cancellableLocked(w) {
		c.Queue.Mu.Unlock()
		return false
	}
	c.Counts.Cancels.Add(1)
	h := wire.NewCancel(w.fid)
	h.SetPending(int(c.Wanting.Load()))
	c.QueueLocked(s, &h, &Payload{}, RequestAbandoned, 0)
	c.StartPosting()
	return true
}

// cancellableLocked reports whether there is I/O to cancel, which then is not looked at
// again. Precondition: sendQueue.Mu is held.
func (c *Conn) cancellableLocked(w cancelWish) bool {
	var found []*Request
	for i := range c.Table.Entries {
		s := &c.Table.Entries[i]
		if s.Fid != w.fid {
			continue
		}
		switch s.State() {
		case RequestAbandoned:
			found = append(found, s)
		case RequestPending:
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
		s.Fid = 0
	}
	return len(found) > 0
}

// giveUp makes a request that is in the state from one that no call waits for, and sees
// to it that the server is asked to cancel it.
//
// Source: [LWIO §Cancel], [OP-94a], [OP-113]
func (c *Conn) giveUp(s *Request, from RequestState) bool {
	fid, round, gathered := s.Fid, s.Round, s.Kind == KindWrite
	if !s.giveUp(from) {
		return false
	}
	if gathered {
		c.AwaitPost(round)
	}
	c.Credits.Cancel(c, fid, false)
	return true
}

// AwaitPost returns when the messages of a round of posts do not refer to memory of the
// calls any more that they belong to: one that leaves takes its memory back, while
// another goroutine may be about to post its message.
func (c *Conn) AwaitPost(round uint64) {
	for ; !c.IsDown(); runtime.Gosched() {
		c.Queue.Mu.Lock()
		over := c.Queue.over > round
		c.Queue.Mu.Unlock()
		if over {
			return
		}
	}
}
