package server

import (
	"errors"
	"slices"
	"sync"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/internal/writelog"
	"lwio/server/internal/association"
)

// replayLife is the time for which the results of writes are kept after the end of their connection.
//
// Source: [OP-112]
const replayLife = 60 * time.Second

// replayEntry is the result of a write. number is the number of messages that the client had sent
// before the write, on this connection and on the connections that it replaced. The low 16 bits of
// number are the Sequence of the write.
type replayEntry struct {
	number int64
	info   uint32
	status ntstatus.Status
}

// replayCache holds the results of writes whose answers the client may have missed. After the loss
// of a connection, the client replays these writes on the next one, with their old Sequence. The
// server does not perform a write of the cache again.
//
// Source: [OP-21] [OP-112]
type replayCache struct {
	most int // own results

	// Owned by the receive loop, and set by AUTH before.
	next  int64 // number of the client's next message
	first int64 // number of its first message on this connection
	// replaced are the results of the connection that this one replaced, or nil. used: a
	// message arrived after AUTH, so the client knows that this connection is valid.
	replaced *replayResults
	used     bool
	// doubts are writes of an earlier process without a result.
	doubts []*doubt
	// log has the writes for the next process; nil without a state. It is set by AUTH. mark is the number of the
	// message that changes the number in the log.
	log  *writelog.Log
	mark int64

	mu sync.Mutex
	// own are the last writes of the connection, in the order of their answers. There are at
	// most as many as Limits.MaxCredits, 128 by default. oldest is the index of the oldest write.
	own    []replayEntry
	oldest int
	// earlier are the results of the replaced connections, and of the replayed writes that
	// this connection performed. Own writes do not displace them.
	earlier []replayEntry
}

// maxEarlier is the most results that one connection leaves to the next, 2048. A client can have lost as
// many answers as it had credits. Replayed writes that are performed add as many results again.
const maxEarlier = 2 * MaxCredits

// begin sets the number of the first message of a connection. base is the Sequence before it.
// inherited are the results of the replaced connection, or nil. With inherited results, base is the
// low 16 bits of the number of the client's next message there. That number can be larger than
// inherited.askedNext, because sent messages may not have arrived.
func (r *replayCache) begin(base uint16, inherited *replayResults) {
	r.first = int64(base + 1)
	if inherited != nil {
		r.mu.Lock()
		r.earlier = inherited.all
		r.mu.Unlock()
		r.replaced, r.doubts = inherited, inherited.doubts
		r.first = inherited.askedNext + int64(base-uint16(inherited.askedNext)) + 1
	}
	r.next = r.first
}

// follow returns the number of a message. replayed: the message is a write that was sent on an
// earlier connection. Its Sequence is before the first Sequence of this connection. gap: the
// Sequence does not follow the last one.
//
// Source: [OP-21] [OP-112]
func (r *replayCache) follow(h *wire.Header) (number int64, replayed, gap bool) {
	if behind := int16(h.Sequence - uint16(r.first)); r.replaced != nil && isWrite(h.Opcode) && behind < 0 && h.Sequence != uint16(r.next) {
		return r.first + int64(behind), true, false
	}
	n := int64(int16(h.Sequence - uint16(r.next)))
	number = r.next + n
	if r.next = number + 1; r.log != nil && r.next >= r.mark {
		r.log.SetNext(r.next)
		r.mark = r.next + nextStep
	}
	return number, false, n != 0
}

// use notes that a message has arrived.
func (r *replayCache) use() {
	r.used = true
	if r.log != nil {
		r.log.SetUsed()
	}
}

// record stores the result of a write before its answer is sent.
func (r *replayCache) record(x replayEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.number < r.first {
		r.recordEarlierLocked(x)
		return
	}
	if len(r.own) < r.most {
		r.own = append(r.own, x)
		return
	}
	r.own[r.oldest] = x
	r.oldest = (r.oldest + 1) % len(r.own)
}

// recordEarlierLocked stores the result of a replayed write.
func (r *replayCache) recordEarlierLocked(x replayEntry) {
	if len(r.earlier) == maxEarlier {
		r.earlier = append(r.earlier[:0], r.earlier[1:]...)
	}
	r.earlier = append(r.earlier, x)
}

// find returns the result of a write of an earlier connection.
func (r *replayCache) find(number int64) (x replayEntry, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.earlier {
		if x.number == number {
			return x, true
		}
	}
	return replayEntry{}, false
}

// all returns the results for the next connection, the oldest first.
func (r *replayCache) all() []replayEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append([]replayEntry(nil), r.earlier...)
	all = append(append(all, r.own[r.oldest:]...), r.own[:r.oldest]...)
	return all[max(len(all)-maxEarlier, 0):]
}

// replayResults are the results of an ended connection.
type replayResults struct {
	all     []replayEntry
	id      [8]byte // SessionId of the connection
	user    string
	next    int64 // number of the client's next message there
	expires time.Time
	// previous is another id, under which the results are named if the client does not know of the connection, and
	// previousNext the number there; 0 for none.
	previous     [8]byte
	previousNext int64
	// asked is the one of both ids by which the client has named the results, and askedNext the number there.
	asked     [8]byte
	askedNext int64
	doubts    []*doubt
	log       *writelog.Log       // or nil
	lineage   association.Lineage // nil for a connection of an earlier process
}

// replayTable keeps the results of ended connections for replayLife. Safe for concurrent use.
type replayTable struct {
	most int // connections

	mu   sync.Mutex
	kept []replayResults // in the order of their expiry
}

// keptPerUser bounds the connections of one user in the table. A user that connects and leaves all
// the time displaces only results of the same user.
const keptPerUser = 64

// put keeps the results of a connection. If the table is full, it drops the results of the user's
// oldest connection, or of the oldest connection of all.
//
// Errors: the log of dropped results cannot be removed.
func (t *replayTable) put(k replayResults) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	same, oldest := 0, 0
	for i := len(t.kept) - 1; i >= 0; i-- {
		if t.kept[i].user == k.user {
			same, oldest = same+1, i
		}
	}
	switch {
	case same >= keptPerUser:
		err = t.dropLocked(oldest, oldest+1)
	case len(t.kept) >= t.most:
		err = t.dropLocked(0, len(t.kept)-t.most+1)
	}
	t.kept = append(t.kept, k)
	return err
}

// dropLocked drops the results of the connections from one index to another.
func (t *replayTable) dropLocked(from, to int) (err error) {
	for i := from; i < to; i++ {
		err = errors.Join(err, t.kept[i].drop())
	}
	t.kept = slices.Delete(t.kept, from, to)
	return err
}

// take removes and returns the results of a user's connection, which the client names by an id.
func (t *replayTable) take(id [8]byte, user string, now time.Time) (replayResults, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range t.kept {
		if id == ([8]byte{}) || k.id != id && k.previous != id || k.user != user || !now.Before(k.expires) {
			continue
		}
		t.kept = slices.Delete(t.kept, i, i+1)
		k.asked, k.askedNext = id, k.next
		if k.id != id {
			k.askedNext = k.previousNext
		}
		return k, true
	}
	return replayResults{}, false
}

// expire drops the results whose time is over, or whose client has logged off.
//
// Errors: as put.
func (t *replayTable) expire(now time.Time) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = slices.DeleteFunc(t.kept, func(k replayResults) bool {
		over := !now.Before(k.expires) || k.leftForGood()
		if over {
			err = errors.Join(err, k.drop())
		}
		return over
	})
	return err
}

// leftForGood reports whether the client has logged off.
func (k *replayResults) leftForGood() bool { return k.lineage != nil && k.lineage.LoggedOff() }

// isWrite reports whether a message changes the data of a file. Its result is kept for a replay.
func isWrite(op wire.Opcode) bool {
	return op == wire.OpWrite || op == wire.OpVecWrite || op == wire.OpSetSize
}

// keepReplay keeps the results of an ended connection for the connection that replaces it. A client
// that was refused, or sent nothing after AUTH, may not know of this connection: it finds the results under the
// name of the replaced connection, too.
func (c *conn) keepReplay() {
	r, expires := &c.replay, time.Now().Add(replayLife)
	replaced := r.replaced
	if !c.auth.passed {
		if replaced != nil {
			replaced.expires = expires
			c.engine.keep(*replaced)
		}
		return
	}
	k := replayResults{
		all: r.all(), id: c.auth.sessionID, user: c.auth.lineage.User(), next: r.next, expires: expires,
		doubts: openDoubts(r.doubts, r.next), log: r.log, lineage: c.auth.lineage,
	}
	if replaced != nil {
		if !r.used {
			k.previous, k.previousNext = replaced.asked, replaced.askedNext
		}
		if replaced.log != nil { // the connection has none
			c.engine.records.check(replaced.log.Remove())
		}
	}
	if k.log != nil {
		k.log.SetNext(k.next)
	}
	c.engine.keep(k)
}

// keep keeps the results of an ended connection.
func (e *engine) keep(k replayResults) {
	if err := e.replay.put(k); err != nil {
		e.records.check(err)
	}
}

// answerReplayed answers a replayed write from the cache. It returns false if the cache has no
// result: the write was not performed yet, or is in doubt, or its result was forgotten. Then the server performs
// the write. So a client must not replay a write with a forgotten result (rdmaconn.Conn.TooOld).
func (c *conn) answerReplayed(o *op) bool {
	r, ok := c.replay.find(o.number)
	if !ok {
		o.doubt = c.replay.doubtOf(o.number)
		return false
	}
	c.engine.count.replays.Add(1)
	o.known, o.status, o.info = true, r.status, r.info
	c.answer(o)
	return true
}
