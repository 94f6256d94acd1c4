package server

import (
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
)

// sendQueue sends the answers of a connection, and the data before them, in order. Any goroutine
// appends operations to the outbox. If no goroutine is posting, it also posts the whole outbox, so
// no goroutine waits for another. The answer to a single READ does not use the outbox (postSingle).
//
// Source: [LWIO §I/O Processing]
type sendQueue struct {
	qp       rdma.QueuePair
	fabric   *fabric
	receives *receiveBuffers
	count    *counters
	fail     func(error) // ends the connection

	draining  atomic.Bool   // the connection ends once everything is answered
	inUse     atomic.Int64  // initiator entries in use
	completed atomic.Uint64 // initiator completions so far

	mu      sync.Mutex
	outbox  opList
	posted  opList // answers whose completions have not been polled
	entries int    // free initiator entries
	posting bool   // a goroutine is posting, and will post the operations that are appended meanwhile
	dead    bool   // the connection has ended: no more posts
	held    heldAnswers
	wakeups wakeups
	sealing answerSealing
}

// init makes q ready for use.
func (q *sendQueue) init(f *fabric, b *receiveBuffers, count *counters, jobs *sync.WaitGroup, fail func(error)) {
	q.fabric, q.receives, q.count, q.fail = f, b, count, fail
	q.entries = f.layout.depth
	q.held.sharedMemory, q.held.post, q.held.jobs = f.sharedMemory(), q.post, jobs
}

// seal makes q seal all answers but the answer to AUTH.
func (q *sendQueue) seal(s *seal.Sender) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sealing.out = s
}

// enqueue appends operations, takes back freed entries, and posts.
func (q *sendQueue) enqueue(list *opList, freed int) {
	q.mu.Lock()
	q.entries += freed
	io := 0
	for o := list.pop(); o != nil; o = list.pop() {
		io += q.pushLocked(o)
	}
	q.completeLocked(io)
	q.postAndUnlock()
}

// deliver appends an operation that a worker began at begun, and the joined operations of the same
// run. It posts them, or holds them for a moment.
func (q *sendQueue) deliver(o *op, joined *opList, begun, now time.Time) {
	q.mu.Lock()
	mayHold := !o.data.more && q.wakeups.armed == nil // else there is more to post
	n, wakes, io := 1, o.h.Interrupt(), q.pushLocked(o)
	for x := joined.pop(); x != nil; x = joined.pop() {
		n, wakes = n+1, wakes && x.h.Interrupt()
		io += q.pushLocked(x)
	}
	q.completeLocked(io)
	// A goroutine that is posting will post these operations too.
	mayHold = mayHold && !q.draining.Load() && !q.posting && !q.dead
	if mayHold && q.held.hold(n, int(q.wakeups.pending.Load()), wakes, begun, now) {
		q.mu.Unlock()
		return
	}
	q.postAndUnlock()
}

// pushLocked appends o and returns how many I/O requests it answers, one or none.
func (q *sendQueue) pushLocked(o *op) (io int) {
	q.outbox.push(o)
	if o.io && !o.data.more {
		return 1
	}
	return 0
}

// completeLocked counts n answers of I/O requests in the outbox, and appends the answer of the armed
// INTERRUPT. One critical section appends an answer, lowers the count of outstanding requests, and
// answers the INTERRUPT, so no wake-up is lost.
//
// Source: [OP-93d] [OP-93f]
func (q *sendQueue) completeLocked(n int) {
	if n == 0 {
		return
	}
	if armed := q.wakeups.complete(n); armed != nil {
		q.wakeLocked(armed)
	}
}

// wakeLocked appends the answer of an INTERRUPT.
func (q *sendQueue) wakeLocked(o *op) {
	q.count.wakeups.Add(1)
	q.outbox.push(o)
}

// interrupt arms an INTERRUPT of a client that has seen no completion of p requests, or answers it
// if the client has missed one. busy: another INTERRUPT is armed, and the caller answers this one.
//
// Source: [OP-93a] [OP-93c] [OP-93f]
func (q *sendQueue) interrupt(o *op, p int) (busy bool) {
	q.mu.Lock()
	switch q.wakeups.arm(o, p) {
	case interruptBusy:
		busy = true
	case interruptNow:
		q.wakeLocked(o)
		q.postAndUnlock()
		return false
	}
	q.mu.Unlock()
	return busy
}

// post posts the outbox.
func (q *sendQueue) post() {
	q.mu.Lock()
	q.postAndUnlock()
}

// postAndUnlock posts the outbox, unless another goroutine is posting, and releases mu.
//
// Precondition: mu is held.
func (q *sendQueue) postAndUnlock() {
	if q.posting || q.outbox.empty() {
		q.mu.Unlock()
		return
	}
	q.posting, q.held.n = true, 0
	w := takeWorkRequests()
	for !q.dead && q.fillLocked(w) {
		q.mu.Unlock()
		q.inUse.Add(int64(len(w.reqs)))
		err := w.post(q.qp)
		w.empty()
		if err != nil {
			q.fail(err)
		}
		q.mu.Lock()
		q.dead = q.dead || err != nil
	}
	q.posting = false
	q.mu.Unlock()
	w.put()
}

// fillLocked moves as much of the outbox into w as can be posted, and reports whether w has a
// request. The last request has a completion.
func (q *sendQueue) fillLocked(w *workRequests) bool {
	for o := q.outbox.head; o != nil && q.roomLocked(w); o = q.outbox.head {
		if !q.fillDataLocked(w, o) {
			break
		}
		if o.data.more {
			w.signal(idPart, o.index)
			q.outbox.remove(o)
			continue
		}
		if !o.data.completes && !q.roomLocked(w) {
			break
		}
		q.outbox.remove(o)
		q.fillAnswerLocked(w, o)
	}
	if w.silent > 0 {
		w.signal(idProgress, 0)
	}
	return len(w.reqs) > 0
}

// roomLocked reports whether one more request can be added to w.
func (q *sendQueue) roomLocked(w *workRequests) bool { return !w.full() && q.entries > 0 }

// addLocked adds a request to w and takes an initiator entry for it.
func (q *sendQueue) addLocked(w *workRequests, op rdma.Op, region rdma.MemoryRegion, offset, length int) *rdma.Request {
	q.entries--
	return w.add(op, region, offset, length)
}

// fillDataLocked adds the RDMA writes of the part of o, and reports whether it added all of them.
// The last write may also be the answer.
//
// Source: [LWIO §Read] [OP-85] [OP-87]
func (q *sendQueue) fillDataLocked(w *workRequests, o *op) bool {
	for o.data.left() > 0 {
		if !q.roomLocked(w) {
			return false
		}
		to, n := o.target()
		region, offset := q.source(o)
		r := q.addLocked(w, rdma.OpWrite, region, offset+o.data.sent, n)
		r.Remote = to
		if o.data.sent += n; o.data.left() == 0 && q.fabric.immediate && !q.sealing.on() && o.wantsImmediate() {
			o.data.completes = true
			q.count.immediate.Add(1)
			r.Flags |= rdma.FlagImmediate
			r.Immediate = o.h.ImmediateCookie
		}
	}
	return true
}

// source returns the region that holds the data of o, and the offset of the data in it.
func (q *sendQueue) source(o *op) (rdma.MemoryRegion, int) {
	if o.h.Opcode == wire.OpAuth {
		return q.receives.region, q.receives.layout.auth
	}
	return q.fabric.buffers.region, int(o.block) * blockUnit
}

// fillAnswerLocked adds the receive of o, and then its answer: a message or a status block, or none
// if the data was the answer. It appends a CLOSE that waited for o to the outbox.
//
// Source: [LWIO §I/O Processing] [OP-94d] [OP-95] [OP-105] [LWIO claim 18] [LWIO claim 19] [LWIO claim 20]
func (q *sendQueue) fillAnswerLocked(w *workRequests, o *op) {
	if o.remote != nil {
		o.remote.Release()
		o.remote = nil
	}
	q.releaseFileLocked(o)
	if o.recv != none {
		w.receive(q.receives, o.recv)
		o.recv = none
	}
	q.fillStatusLocked(w, o)
	if o.hangUp || o.notice {
		w.signal(idAnswer, o.index)
		return
	}
	w.answers++
	q.posted.push(o)
}

// releaseFileLocked ends the use of the file by o. It appends the CLOSE that waited for o.
func (q *sendQueue) releaseFileLocked(o *op) {
	if !o.holds {
		return
	}
	o.holds = false
	if closer := o.file.release(); closer != nil {
		q.outbox.push(closer)
	}
}

// fillStatusLocked adds the status of o.
func (q *sendQueue) fillStatusLocked(w *workRequests, o *op) {
	place, offset := q.receives.answer(o.index)
	switch {
	case o.data.completes: // the last RDMA write is the answer
	case o.h.Interrupt():
		wire.StatusResponse{Cookie: o.h.Cookie, Information: o.info, Status: uint32(o.status)}.AppendTo(place)
		size := wire.StatusResponseSize
		if q.sealing.on() && o.h.Opcode != wire.OpAuth {
			size = sealedAnswerSize
			if err := q.sealing.seal(place[:size], o); err != nil {
				q.fail(err)
			}
		}
		q.addLocked(w, rdma.OpSend, q.receives.region, offset, size).Flags |= rdma.FlagSolicitEvent
	default:
		wire.IOStatusBlock{Information: o.info, Status: uint32(o.status)}.AppendTo(place)
		r := q.addLocked(w, rdma.OpWrite, q.receives.region, offset, wire.IOStatusBlockSize)
		r.Remote = rdma.RemoteAddr{Addr: o.h.IosVa, Token: rdma.RemoteToken(o.h.IosMh)}
	}
}

// settle counts a completion that frees entries. The caller returns the entries by enqueue or claim.
func (q *sendQueue) settle(entries int) {
	q.completed.Add(1)
	q.inUse.Add(-int64(entries))
}

// finish returns the n oldest operations with posted answers. A completion has reported that these
// answers were sent.
func (q *sendQueue) finish(n int) (done opList) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range n {
		done.push(q.posted.pop())
	}
	return done
}

// takeEntry takes an initiator entry.
func (q *sendQueue) takeEntry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entries == 0 {
		return false
	}
	q.entries--
	return true
}

// startDraining makes q post all further answers without delay.
func (q *sendQueue) startDraining() { q.draining.Store(true) }

// drained reports whether the connection is draining and has answered all requests.
func (q *sendQueue) drained() bool {
	if !q.draining.Load() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wakeups.pending.Load() == 0 && q.outbox.empty() && q.inUse.Load() == 0
}

// kill ends all posting. It returns after the current critical section, so every operation is
// either in the outbox or released.
func (q *sendQueue) kill() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dead = true
	q.held.stop()
}

// claim makes the caller the goroutine that posts, and appends the answer of o to w. The data of o is
// in w already and takes no entry. claim returns false if another goroutine posts, or the outbox is
// not empty, or no entry is free. If it succeeds, it takes the freed entries back. Operations that are
// appended meanwhile are posted by unclaim.
func (q *sendQueue) claim(w *workRequests, o *op, freed int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.posting || q.dead || q.entries+freed == 0 || !q.outbox.empty() {
		return false
	}
	q.entries += freed
	q.posting = true
	q.fillStatusLocked(w, o)
	return true
}

// postClaimed posts the data and the answer of o, then its receive. n is the number of posted
// requests, of the data and the answer. If n is not 0, an error ends the connection. The client may
// send as soon as it has the answer: until the receive of o is posted, layout.ahead provides one.
//
// Source: [OP-66b]
func (q *sendQueue) postClaimed(w *workRequests, o *op) (n int, err error) {
	w.answers = 1
	w.signal(idProgress, 0)
	if n, err = q.qp.Post(w.reqs); n == 0 {
		return 0, err
	}
	q.inUse.Add(1)
	if err == nil {
		w.receive(q.receives, o.recv)
		o.recv = none
		err = w.postReceives(q.qp)
	}
	if err != nil {
		q.fail(err)
	}
	return n, err
}

// unclaim ends the claim, after postClaimed has posted n requests, and posts the outbox.
func (q *sendQueue) unclaim(o *op, n int, err error) {
	q.mu.Lock()
	q.posting = false
	switch {
	case n == 0:
		q.entries++
	case err != nil:
		q.dead = true
	default:
		q.posted.push(o)
		q.completeLocked(1)
		q.releaseFileLocked(o)
	}
	q.postAndUnlock()
}
