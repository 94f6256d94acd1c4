package iwarp

import (
	"errors"
	"net"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// inlineBatches bounds the batches that a post writes before it starts the writing
// goroutine.
const inlineBatches = 16

// errAgain reports that the socket is full.
var errAgain = errors.New("socket is full")

// errRegionClosed reports that the memory of a request is gone.
var errRegionClosed = errors.New("memory region of a request is closed")

// sender writes the frames of a connection. Its fields belong to the goroutine that has
// the right to send (InitiatorQueue.Sending), except stopped.
type sender struct {
	c      *conn
	framer framer

	flat    []byte // see writeBlocking
	stopped bool   // take no more requests; guarded by the lock of the initiator queue
	err     error  // the reason for the failure of a write
	mid     bool   // the stream ends in the middle of a frame

	waitFn func(fd uintptr) bool
	runFn  func()
}

func (t *sender) init(c *conn, limit int) {
	t.c = c
	t.framer.init(c, limit)
	t.waitFn = t.wait
	t.runFn = t.run
}

// pump writes queued messages until the socket is full. The caller has the right to send.
// pump releases it, or passes it to a goroutine.
func (t *sender) pump() {
	for range inlineBatches {
		if t.framer.b == nil && !t.fill() {
			return
		}
		if t.c.raw == nil || t.framer.wouldBlock {
			break
		}
		err := t.write()
		if errors.Is(err, errAgain) {
			break
		}
		if err != nil {
			t.fail(err)
			return
		}
		t.complete()
	}
	t.c.wg.Add(1)
	go t.runFn()
}

// run is the writing goroutine: it writes until the queue is empty.
func (t *sender) run() {
	defer t.c.wg.Done()
	t.framer.mayBlock, t.framer.wouldBlock = true, false
	if t.c.raw != nil {
		if err := t.c.raw.Write(t.waitFn); err != nil {
			t.fail(err)
		}
		return
	}
	for t.framer.b != nil || t.fill() {
		if err := t.writeBlocking(); err != nil {
			t.fail(err)
			return
		}
		t.complete()
	}
}

// wait writes until the queue is empty. It returns false if the socket is full.
func (t *sender) wait(uintptr) bool {
	for t.framer.b != nil || t.fill() {
		switch err := t.write(); {
		case errors.Is(err, errAgain):
			return false
		case err != nil:
			t.fail(err)
			return true
		}
		t.complete()
	}
	return true
}

// write writes the batch, holding references to its regions. It returns nil when all
// bytes are written.
func (t *sender) write() error {
	b := t.framer.b
	if len(b.parts) == 0 {
		return nil
	}
	if err := b.acquire(); err != nil {
		return err
	}
	defer b.release()
	for {
		n, err := b.writeSocket(t.c.fd)
		if err != nil {
			return err
		}
		if b.advance(n) {
			return nil
		}
	}
}

// writeBlocking writes the batch to a connection that can only block. It copies the
// frames, because a blocking write would hold references to regions too long.
func (t *sender) writeBlocking() error {
	b := t.framer.b
	if len(b.parts) == 0 {
		return nil
	}
	if err := b.acquire(); err != nil {
		return err
	}
	t.flat = t.flat[:0]
	for _, p := range b.parts {
		t.flat = append(t.flat, p...)
	}
	b.release()
	n, err := t.c.nc.Write(t.flat)
	b.touched = n > 0
	return err
}

// fill frames queued messages into a new batch. If there are none, or the sender is
// stopped, it releases the right to send and returns false.
func (t *sender) fill() bool {
	qp := t.c.qp
	qp.Initiator.Lock()
	taken := t.takeLocked()
	qp.Initiator.Unlock()
	return taken && t.frameTaken()
}

// takeLocked begins a new batch with the queued messages; frameTaken frames them. If
// there are none, or the sender is stopped, it releases the right to send and returns
// false. It may release the lock meanwhile.
func (t *sender) takeLocked() bool {
	qp := t.c.qp
	for t.framer.part != partRequest && qp.Initiator.Next < qp.Initiator.Cancel {
		t.cancelLocked()
	}
	if t.stopped || qp.held || !t.workLocked() {
		t.releaseLocked()
		return false
	}
	t.framer.b = batches.Get().(*batch)
	most := uint64(batchRequests)
	if qp.Initiator.Next < qp.Initiator.Cancel {
		most = 1 // the request in progress
	}
	for i := qp.Initiator.Next; i != min(qp.Initiator.Requests.Tail, qp.Initiator.Next+most); i++ {
		t.framer.b.requests[t.framer.b.taken] = qp.Initiator.Requests.At(i)
		t.framer.b.taken++
	}
	for i := qp.reads.answers.Head; i != min(qp.reads.answers.Tail, qp.reads.answers.Head+batchRequests); i++ {
		t.framer.b.answers[t.framer.b.asked] = qp.reads.answers.At(i)
		t.framer.b.asked++
	}
	return true
}

// frameTaken frames the messages of the batch. It returns false if that failed, which
// ends writing.
func (t *sender) frameTaken() bool {
	err := t.framer.frameAll()
	if err != nil {
		t.fail(err)
		return false
	}
	t.framer.b.seal()
	return true
}

// workLocked reports whether a message can be written now.
func (t *sender) workLocked() bool {
	qp := t.c.qp
	return qp.reads.answers.Len() != 0 || qp.Initiator.Next != qp.Initiator.Requests.Tail &&
		(t.framer.part == partRequest || !qp.Initiator.Requests.At(qp.Initiator.Next).Fenced(qp.reads.own.Len(), t.c.limits.Outbound))
}

// wakeLocked takes the right to send if there is a message to write and no other
// goroutine sends.
func (t *sender) wakeLocked() bool {
	qp := t.c.qp
	if qp.Initiator.Sending || qp.held || !t.workLocked() {
		return false
	}
	qp.Initiator.Sending = true
	return true
}

// wake makes a goroutine write the queued messages.
func (t *sender) wake() {
	qp := t.c.qp
	qp.Initiator.Lock()
	start := t.wakeLocked()
	qp.Initiator.Unlock()
	if start {
		t.pump()
	}
}

// cancelLocked ends the requests before InitiatorQueue.Cancel. It releases the lock
// meanwhile. Precondition: none of these requests is partly framed.
func (t *sender) cancelLocked() {
	qp := t.c.qp
	for i := qp.Initiator.Next; i < qp.Initiator.Cancel; i++ {
		qp.Initiator.Requests.At(i).Status = rdma.StatusCanceled
	}
	n := qp.Initiator.Cancel - qp.Initiator.Next
	qp.Initiator.Unlock()
	qp.Initiator.Settle(n)
	qp.Initiator.Lock()
}

// releaseLocked releases the right to send.
func (t *sender) releaseLocked() {
	t.framer.mayBlock, t.framer.wouldBlock = false, false
	t.c.qp.Initiator.ReleaseSendingLocked()
}

// complete completes the requests that are completely written with the batch.
func (t *sender) complete() {
	n := uint64(t.framer.b.complete)
	t.drop()
	t.c.qp.Initiator.Settle(n)
}

// drop returns the batch to the pool.
func (t *sender) drop() {
	b := t.framer.b
	t.framer.b = nil
	if b.file != nil {
		readBuffers.Put(b.file)
	}
	b.reset()
	batches.Put(b)
}

// fail ends writing and releases the right to send. The reader then has a time limit to
// find the reason for the end, because the peer may have sent a Terminate.
func (t *sender) fail(err error) {
	c := t.c
	t.mid = t.mid || t.framer.b != nil && t.framer.b.touched
	if t.framer.b != nil {
		t.drop()
	}
	c.qp.Initiator.Lock()
	t.err, t.stopped = err, true
	t.releaseLocked()
	c.qp.Initiator.Unlock()
	if e := c.endingForData(err); e != nil {
		c.end(e)
		return
	}
	c.limitRead(c.a.p.cfg.DrainTimeout)
}

// stop makes the writer stop, at once or after the batch in progress, and waits until it
// has stopped.
func (t *sender) stop(abort bool) {
	deadline := softrdma.LongAgo
	if !abort {
		deadline = time.Now().Add(t.c.a.p.cfg.DrainTimeout)
	}
	_ = t.c.nc.SetWriteDeadline(deadline)
	qp := t.c.qp
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	t.stopped = true
	qp.Initiator.AwaitSendingLocked()
}

// failure returns the reason for the failure of a write.
func (t *sender) failure() error {
	t.c.qp.Initiator.Lock()
	defer t.c.qp.Initiator.Unlock()
	if t.err == nil {
		return net.ErrClosed
	}
	return t.err
}

// begun reports whether a request is partly written. Precondition: the sender has
// stopped.
func (t *sender) begun() bool { return t.framer.part == partRequest || t.err != nil }

// clean reports whether the stream is between frames. Precondition: the sender has
// stopped.
func (t *sender) clean() bool {
	return !t.mid && (t.err == nil || t.c.endingForData(t.err) != nil)
}
