package server

import (
	"sync"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// keepOutcomes is how long the results of writes outlive their connection.
//
// Source: [OP-112]
const keepOutcomes = 60 * time.Second

// outcome is what became of a write, which the client names by its Sequence.
type outcome struct {
	sequence uint16
	info     uint32
	status   ntstatus.Status
}

// outcomes are those of the last writes of a connection, in the order of their
// answers: as many as the client can have sent without knowing their outcome,
// which is as many as it had credits. A client whose connection broke sends those
// writes again on the next one, with their old Sequence; what is in here is not
// done twice.
//
// Source: [OP-112]
type outcomes struct {
	ring []outcome
	next int
}

// put notes a result among the last most ones.
func (r *outcomes) put(x outcome, most int) {
	if len(r.ring) < most {
		r.ring = append(r.ring, x)
		return
	}
	r.ring[r.next%len(r.ring)] = x
	r.next++
}

func (r *outcomes) find(sequence uint16) (outcome, bool) {
	for _, x := range r.ring {
		if x.sequence == sequence {
			return x, true
		}
	}
	return outcome{}, false
}

// keptOutcomes are the results of a connection that is gone.
type keptOutcomes struct {
	outcomes
	id      [8]byte // the connection's SessionId
	user    string
	base    uint16 // what its client's next Sequence would have been
	expires time.Time
}

// outcomeTable keeps results of connections that are gone, each for a while.
type outcomeTable struct {
	mu   sync.Mutex
	kept []keptOutcomes // in the order of their expiry
	most int
}

// put keeps the results of a connection; if there are too many, the oldest go.
func (t *outcomeTable) put(k keptOutcomes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) >= t.most {
		t.dropLocked(len(t.kept) - t.most + 1)
	}
	t.kept = append(t.kept, k)
}

// take hands the results of a user's connection out, once.
func (t *outcomeTable) take(id [8]byte, user string, now time.Time) (keptOutcomes, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range t.kept {
		if k.id == id && k.user == user && now.Before(k.expires) {
			t.kept = append(t.kept[:i], t.kept[i+1:]...)
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
	t.dropLocked(n)
}

func (t *outcomeTable) dropLocked(n int) {
	rest := copy(t.kept, t.kept[n:])
	clear(t.kept[rest:])
	t.kept = t.kept[:rest]
}

// isWrite tells whether a message changes a file.
func isWrite(op wire.Opcode) bool { return op == wire.OpWrite || op == wire.OpVecWrite }

// rememberLocked notes the outcome of a write whose answer goes out now.
func (c *conn) rememberLocked(o *op) {
	if isWrite(o.h.Opcode) {
		c.outcomes.put(outcome{o.h.Sequence, o.info, o.status}, c.f.layout.slots)
	}
}

// keep leaves the results to the connection that replaces this one. Nothing of it
// goes on any more.
func (c *conn) keep() {
	if !c.authenticated {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.e.outcomes.put(keptOutcomes{
		outcomes: c.outcomes, id: c.sessionID, user: c.sess.User(), base: c.sequence, expires: time.Now().Add(keepOutcomes),
	})
}

// inherit takes the results over of the connection that this one replaces.
func (c *conn) inherit(k keptOutcomes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes, c.inherited = k.outcomes, true
}

// repeats tells whether a message is a write sent again, with its old Sequence:
// those of the connection replaced lie behind where this one began.
func (c *conn) repeats(h *wire.Header) bool {
	return c.inherited && isWrite(h.Opcode) && h.Sequence != c.sequence && int16(h.Sequence-c.base) < 0
}

// repeat answers a write that was sent again and had been done before; false says
// that it had not.
func (c *conn) repeat(o *op) bool {
	c.mu.Lock()
	r, ok := c.outcomes.find(o.h.Sequence)
	c.mu.Unlock()
	if !ok {
		return false
	}
	c.e.count.repeats.Add(1)
	o.status, o.info = r.status, r.info
	c.answer(o)
	return true
}
