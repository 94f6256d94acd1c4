package server

import (
	"slices"
	"sync"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// keepOutcomes is how long the results of writes outlive their connection.
//
// Source: [OP-112]
const keepOutcomes = 60 * time.Second

// outcome is what became of a write, which has a number: how many messages the
// client had sent before, on this connection and those that it replaced. The low 16
// bits are its Sequence.
type outcome struct {
	number int64
	info   uint32
	status ntstatus.Status
}

// outcomes are those of the writes that a client may have sent without knowing what
// became of them. A client whose connection broke sends those again on the next one,
// with their old Sequence; what is in here is not done twice.
//
// Source: [OP-112]
type outcomes struct {
	// own are the last writes of the connection, in the order of their answers: as
	// many as it had credits. next is the oldest.
	own  []outcome
	next int
	// earlier are those of the connections it replaced, and what was sent again and
	// done here; none of its own pushes them out.
	earlier []outcome
}

// maxEarlier bounds what goes from connection to connection: a client may be in doubt about
// as many writes as it had credits, and asks for them though half as many were written
// since. What it sends again and is done then is behind those that had been.
const maxEarlier = 2 * maxCredits

// put notes the outcome of a write among the last most ones.
func (r *outcomes) put(x outcome, most int) {
	if len(r.own) < most {
		r.own = append(r.own, x)
		return
	}
	r.own[r.next] = x
	r.next = (r.next + 1) % len(r.own)
}

// putEarlier notes the outcome of a write that was sent again.
func (r *outcomes) putEarlier(x outcome) {
	if len(r.earlier) == maxEarlier {
		r.earlier = append(r.earlier[:0], r.earlier[1:]...)
	}
	r.earlier = append(r.earlier, x)
}

// find finds a write of an earlier connection.
func (r *outcomes) find(number int64) (outcome, bool) {
	for _, x := range r.earlier {
		if x.number == number {
			return x, true
		}
	}
	return outcome{}, false
}

// all are the outcomes that go to the next connection, the oldest first.
func (r *outcomes) all() []outcome {
	all := append([]outcome(nil), r.earlier...)
	all = append(append(all, r.own[r.next:]...), r.own[:r.next]...)
	return all[max(len(all)-maxEarlier, 0):]
}

// keptOutcomes are the outcomes of a connection that is gone.
type keptOutcomes struct {
	all     []outcome
	id      [8]byte // the connection's SessionId
	user    string
	next    int64 // the number of the client's next message there
	expires time.Time
}

// outcomeTable keeps results of connections that are gone, each for a while.
type outcomeTable struct {
	mu   sync.Mutex
	kept []keptOutcomes // in the order of their expiry
	most int
}

// keptPerUser is how many of a user's connections are remembered: who connects and
// leaves all the time pushes out none but his own.
const keptPerUser = 64

// put keeps the outcomes of a connection; if there are too many, the user's oldest go,
// then the oldest of all.
func (t *outcomeTable) put(k keptOutcomes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine, oldest := 0, 0
	for i := len(t.kept) - 1; i >= 0; i-- {
		if t.kept[i].user == k.user {
			mine, oldest = mine+1, i
		}
	}
	switch {
	case mine >= keptPerUser:
		t.kept = slices.Delete(t.kept, oldest, oldest+1)
	case len(t.kept) >= t.most:
		t.kept = slices.Delete(t.kept, 0, len(t.kept)-t.most+1)
	}
	t.kept = append(t.kept, k)
}

// take hands the results of a user's connection out, once.
func (t *outcomeTable) take(id [8]byte, user string, now time.Time) (keptOutcomes, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range t.kept {
		if k.id == id && k.user == user && now.Before(k.expires) {
			t.kept = slices.Delete(t.kept, i, i+1)
			return k, true
		}
	}
	return keptOutcomes{}, false
}

// expire drops what was kept long enough.
func (t *outcomeTable) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for n < len(t.kept) && !now.Before(t.kept[n].expires) {
		n++
	}
	t.kept = slices.Delete(t.kept, 0, n)
}

// isWrite tells whether a message changes a file.
func isWrite(op wire.Opcode) bool { return op == wire.OpWrite || op == wire.OpVecWrite }

// rememberLocked notes the outcome of a write whose answer goes out now.
func (c *conn) rememberLocked(o *op) {
	x := outcome{o.number, o.info, o.status}
	switch {
	case !isWrite(o.h.Opcode) || o.known:
	case o.number < c.first:
		c.outcomes.putEarlier(x)
	default:
		c.outcomes.put(x, c.f.layout.slots)
	}
}

// keep leaves the outcomes to the connection that replaces this one. Nothing of it
// goes on any more. A client that was refused, or never heard of after AUTH, may not
// know that this one had taken the place of another: what that left stays to be had.
func (c *conn) keep() {
	expires := time.Now().Add(keepOutcomes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replaced != nil && !c.heard {
		k := *c.replaced
		k.expires = expires
		c.e.outcomes.put(k)
	}
	if !c.authenticated {
		return
	}
	c.e.outcomes.put(keptOutcomes{
		all: c.outcomes.all(), id: c.sessionID, user: c.sess.User(), next: c.next, expires: expires,
	})
}

// inherit takes the outcomes over of the connection that this one replaces. base is
// the number that the client's next message would have had there, of which the client
// says 16 bits: some that it sent may not have arrived.
func (c *conn) inherit(k keptOutcomes, base uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes.earlier, c.replaced = k.all, &k
	c.first = k.next + int64(base-uint16(k.next)) + 1
}

// follow numbers a message, and counts gaps in the Sequences. It tells whether it is a
// write sent again, with its old Sequence: those of the connections replaced lie
// behind where this one began.
//
// Source: [OP-21] [OP-112]
func (c *conn) follow(o *op) (again bool) {
	sequence := o.h.Sequence
	if behind := int16(sequence - uint16(c.first)); c.replaced != nil && isWrite(o.h.Opcode) && behind < 0 && sequence != uint16(c.next) {
		o.number = c.first + int64(behind)
		return true
	}
	gap := int64(int16(sequence - uint16(c.next)))
	if gap != 0 {
		c.e.count.gaps.Add(1)
	}
	o.number = c.next + gap
	c.next = o.number + 1
	return false
}

// repeat answers a write that was sent again and had been done before; false says
// that it had not.
func (c *conn) repeat(o *op) bool {
	c.mu.Lock()
	r, ok := c.outcomes.find(o.number)
	c.mu.Unlock()
	if !ok {
		return false
	}
	c.e.count.repeats.Add(1)
	o.known, o.status, o.info = true, r.status, r.info
	c.answer(o)
	return true
}
