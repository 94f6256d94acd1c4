package server

import (
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// sendQueue sends the answers of a connection, and the data before them, in order. Any
// goroutine appends operations; the one that finds no other posting posts all of them, so
// none waits for another. All answers go through the outbox, except that of a READ which
// came alone (postSingle).
//
// Source: [LWIO §I/O Processing]
type sendQueue struct {
	qp       rdma.QueuePair
	fabric   *fabric
	receives *receiveBuffers
	count    *counters
	fail     func(error) // ends the connection

	draining  atomic.Bool   // the connection ends once everything is answered
	inUse     atomic.Int64  // initiator slots in use
	completed atomic.Uint64 // initiator completions so far

	mu      sync.Mutex
	outbox  opList
	posted  opList // answers whose completions have not been polled
	slots   int    // free initiator slots
	posting bool   // a goroutine is posting; it takes along all that is appended meanwhile
	dead    bool   // nothing is posted any more
	held    heldAnswers
	wakeups wakeups
}

// init makes q ready for use.
func (q *sendQueue) init(f *fabric, b *receiveBuffers, count *counters, jobs *sync.WaitGroup, fail func(error)) {
	q.fabric, q.receives, q.count, q.fail = f, b, count, fail
	q.slots = f.layout.depth
	q.held.sharedMemory, q.held.post, q.held.jobs = f.sharedMemory(), q.post, jobs
}

// enqueue appends operations, takes back freed slots, and posts.
func (q *sendQueue) enqueue(list *opList, freed int) {
	q.mu.Lock()
	q.slots += freed
	io := 0
	for o := list.pop(); o != nil; o = list.pop() {
		io += q.pushLocked(o)
	}
	q.completeLocked(io)
	q.postAndUnlock()
}

// deliver appends an operation that a worker began to work on at begun, with those that
// it performed in the same run, and posts them, or holds them for a moment.
func (q *sendQueue) deliver(o *op, joined *opList, begun, now time.Time) {
	q.mu.Lock()
	mayHold := !o.more && q.wakeups.armed == nil // else there is more to post
	n, wakes, io := 1, o.h.Interrupt(), q.pushLocked(o)
	for x := joined.pop(); x != nil; x = joined.pop() {
		n, wakes = n+1, wakes && x.h.Interrupt()
		io += q.pushLocked(x)
	}
	q.completeLocked(io)
	// A goroutine that is posting takes the operations along.
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
	if o.io && !o.more {
		return 1
	}
	return 0
}

// completeLocked counts n answers of I/O requests in the outbox, and appends the answer of
// the INTERRUPT that waits for one. To append an answer, to lower the count of outstanding
// requests and to answer an INTERRUPT is one critical section, so no wake-up is lost.
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

// interrupt takes in an INTERRUPT of a client that has seen no completion of p requests, and
// reports whether it is answered as busy: that is left to the caller.
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

// fillLocked moves as much of the outbox into w as can be posted, and reports whether that
// is anything. The last request of all has a completion.
func (q *sendQueue) fillLocked(w *workRequests) bool {
	for o := q.outbox.head; o != nil && q.roomLocked(w); o = q.outbox.head {
		if !q.fillDataLocked(w, o) {
			break
		}
		if o.more {
			w.signal(idStage, o.index)
			q.outbox.remove(o)
			continue
		}
		if !o.completes && !q.roomLocked(w) {
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
func (q *sendQueue) roomLocked(w *workRequests) bool { return !w.full() && q.slots > 0 }

// addLocked adds a request to w and takes a slot for it.
func (q *sendQueue) addLocked(w *workRequests, op rdma.Op, region rdma.MemoryRegion, offset, length int) *rdma.Request {
	q.slots--
	return w.add(op, region, offset, length)
}

// fillDataLocked adds the RDMA writes of the stage of o and reports whether these are all.
// The last one may be the answer, too.
//
// Source: [LWIO §Read] [OP-85] [OP-87]
func (q *sendQueue) fillDataLocked(w *workRequests, o *op) bool {
	for o.sent < o.staged {
		if !q.roomLocked(w) {
			return false
		}
		to, n := o.target()
		region, offset := q.source(o)
		r := q.addLocked(w, rdma.OpWrite, region, offset+o.sent, n)
		r.Remote = to
		if o.sent += n; o.sent == o.staged && q.fabric.immediate && o.wantsImmediate() {
			o.completes = true
			q.count.immediate.Add(1)
			r.Flags |= rdma.FlagImmediate
			r.Immediate = o.h.ImmediateCookie
		}
	}
	return true
}

// source returns the place of the data of o.
func (q *sendQueue) source(o *op) (rdma.MemoryRegion, int) {
	if o.h.Opcode == wire.OpAuth {
		return q.receives.region, q.receives.layout.auth
	}
	return q.fabric.buffers.region, int(o.block) * blockUnit
}

// fillAnswerLocked adds the answer of o, as a message or as a status block, unless it went
// with the data, and before it the receive of o. A CLOSE that waited for o is appended to
// the outbox.
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

// releaseFileLocked ends the use of the file by o.
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
	case o.completes: // the data carried it
	case o.h.Interrupt():
		wire.StatusResponse{Cookie: o.h.Cookie, Information: o.info, Status: uint32(o.status)}.AppendTo(place)
		q.addLocked(w, rdma.OpSend, q.receives.region, offset, wire.StatusResponseSize).Flags |= rdma.FlagSolicitEvent
	default:
		wire.IOStatusBlock{Information: o.info, Status: uint32(o.status)}.AppendTo(place)
		r := q.addLocked(w, rdma.OpWrite, q.receives.region, offset, wire.IOStatusBlockSize)
		r.Remote = rdma.RemoteAddr{Addr: o.h.IosVa, Token: rdma.RemoteToken(o.h.IosMh)}
	}
}

// wantsImmediate reports whether o is completed by immediate data of its last RDMA write
// instead of a status: it is a read that succeeded in full, and its client asks for a
// message and has named a cookie for it; 0 is none.
//
// Source: [LWIO §Read] [LWIO §Vectored Read] [OP-85] [OP-86]
func (o *op) wantsImmediate() bool {
	return o.h.Interrupt() && o.h.ImmediateCookie != 0 && o.status == ntstatus.Success && !o.more &&
		o.info == o.h.Length && (o.h.Opcode == wire.OpRead || o.h.Opcode == wire.OpVecRead)
}

// settle counts a completion that frees that many slots. The slots come back with enqueue.
func (q *sendQueue) settle(slots int) {
	q.completed.Add(1)
	q.inUse.Add(-int64(slots))
}

// finish returns the first n operations whose answers were posted: their answers have been
// sent.
func (q *sendQueue) finish(n int) (done opList) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range n {
		done.push(q.posted.pop())
	}
	return done
}

// takeSlot takes an initiator slot.
func (q *sendQueue) takeSlot() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.slots == 0 {
		return false
	}
	q.slots--
	return true
}

// startDraining makes answers go out without delay from now on.
func (q *sendQueue) startDraining() { q.draining.Store(true) }

// drained reports whether the connection is to end and has answered everything.
func (q *sendQueue) drained() bool {
	if !q.draining.Load() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wakeups.pending.Load() == 0 && q.outbox.empty() && q.inUse.Load() == 0
}

// kill makes q post nothing any more.
func (q *sendQueue) kill() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dead = true
	q.held.stop()
}

// claim makes the caller the goroutine that posts, and appends the answer of o to w, behind
// its data, which takes no slot; false if another goroutine posts, or something has to be
// posted before. freed slots come back if it succeeds. Operations that are appended
// meanwhile follow.
func (q *sendQueue) claim(w *workRequests, o *op, freed int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.posting || q.dead || q.slots+freed == 0 || !q.outbox.empty() {
		return false
	}
	q.slots += freed
	q.posting = true
	q.fillStatusLocked(w, o)
	return true
}

// postClaimed posts data and answer of o, then its receive, and returns how many of the first
// two. Unless that is none, an error ends the connection. The client may use the receive as
// soon as it has the answer: until it is posted there is the one ahead.
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

// unclaim undoes claim, after n of data and answer were posted.
func (q *sendQueue) unclaim(o *op, n int, err error) {
	q.mu.Lock()
	q.posting = false
	switch {
	case n == 0:
		q.slots++
	case err != nil:
		q.dead = true
	default:
		q.posted.push(o)
		q.completeLocked(1)
		q.releaseFileLocked(o)
	}
	q.postAndUnlock()
}
