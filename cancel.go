package lwio

import (
	"runtime"
	"slices"

	"lwio/internal/wire"
)

// CANCEL is for all I/O of a file id, not for one request. So it is sent when nobody
// waits for any of it: when the last of the calls on the file, or of those that were in
// flight together, has given up, and when the file is closed. What the server has begun
// with it does all the same; the slots of all are taken until it has answered.
// [OP-94a] [OP-94c] [OP-113]

// cancelWish is a CANCEL that waits for a slot.
type cancelWish struct {
	fid uint16
	all bool // also of what somebody waits for
}

// cancel stops the I/O of a file id at the server, if there is any that was given up
// and none that somebody waits for; with all, whatever there is. It does not wait:
// without a free credit the message goes out with the next that is given back, before
// new requests. The caller holds conn.life.
//
// Source: [LWIO §Cancel], [OP-66], [OP-68], [OP-94a]
func (k *credits) cancel(c *conn, fid uint16, all bool) {
	if fid == 0 || c.isDown() {
		return
	}
	w := cancelWish{fid, all}
	k.mu.Lock()
	if !slices.Contains(k.cancels, w) {
		k.cancels = append(k.cancels, w)
	}
	k.mu.Unlock()
	k.pump(c)
}

// postCancel sends CANCEL in slot s, unless there is nothing to cancel any more, or
// somebody waits for some of it. It looks where messages get their order: what is
// queued later is not cancelled.
//
// Source: [LWIO §Cancel], [OP-94a]
func (c *conn) postCancel(s *slot, w cancelWish) bool {
	s.kind, s.own = kindControl, false
	c.sendMu.Lock()
	if c.isDown() || !c.cancellableLocked(w) {
		c.sendMu.Unlock()
		return false
	}
	c.counts.cancels.Add(1)
	h := wire.NewCancel(w.fid)
	h.SetPending(int(c.wanting.Load()))
	c.queueLocked(s, &h, &payload{}, slotAbandoned, 0)
	c.startPosting()
	return true
}

// cancellableLocked reports whether there is I/O to cancel, which then is not looked at
// again. The caller holds sendMu.
func (c *conn) cancellableLocked(w cancelWish) bool {
	var found []*slot
	for i := range c.slots {
		s := &c.slots[i]
		if s.fid != w.fid {
			continue
		}
		switch s.state() {
		case slotAbandoned:
			found = append(found, s)
		case slotPending:
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

// giveUp makes a request that is in the state from one that nobody waits for, and sees
// to it that the server is told.
//
// Source: [LWIO §Cancel], [OP-94a], [OP-113]
func (c *conn) giveUp(s *slot, from slotState) bool {
	fid, round, gathered := s.fid, s.round, s.kind == kindWrite
	if !s.giveUp(from) {
		return false
	}
	if gathered {
		c.awaitPost(round)
	}
	c.credits.cancel(c, fid, false)
	return true
}

// awaitPost returns when the messages of a round of posts do not refer to memory of the
// calls any more that they belong to: one that leaves takes its memory back, while
// somebody else may be about to post its message.
func (c *conn) awaitPost(round uint64) {
	for ; !c.isDown(); runtime.Gosched() {
		c.sendMu.Lock()
		over := c.over > round
		c.sendMu.Unlock()
		if over {
			return
		}
	}
}
