package iwarp

import (
	"errors"
	"net"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// inlineBatches bounds how long a poster writes before it leaves the rest to the
// writing goroutine.
const inlineBatches = 16

// errAgain says that the socket takes nothing now.
var errAgain = errors.New("socket is full")

// errRegionClosed says that the memory of a request is gone.
var errRegionClosed = errors.New("memory region of a request is closed")

// sender turns requests into frames and writes them. All fields but stopped
// belong to who holds the baton (queuePair.writing).
type sender struct {
	c                      *conn
	maxTagged, maxUntagged int // payload of one frame

	b         *batch
	grip      grip   // of regions, while frames are made
	msn       uint32 // of the next Send
	readMSN   uint32 // of the next Read or Atomic Request
	atomicMSN uint32 // of the next Atomic Response
	part      part   // what is partly in frames
	offset    int    // bytes of it that are in frames already
	piece     int    // where they end
	within    int

	flat    []byte // see writeBlocking
	files   fileReader
	patient bool // reading a file may wait: this is the writing goroutine
	cold    bool // it would have to

	stopped bool  // guarded by queuePair.mu: take no more requests
	err     error // why writing failed
	mid     bool  // the stream was left in the middle of a frame

	waitFn func(fd uintptr) bool
	runFn  func()
}

// part says what a message belongs to of which a part is in frames.
type part uint8

const (
	partNone    part = iota
	partRequest      // queuePair.next
	partAnswer       // the first answer
)

func (t *sender) init(c *conn, limit int) {
	t.c, t.msn, t.readMSN, t.atomicMSN = c, 1, 1, 1
	t.maxTagged, t.maxUntagged = payloadFor(limit, frame.TaggedSize), payloadFor(limit, frame.UntaggedSize)
	t.waitFn = t.wait
	t.runFn = t.run
	t.files.init()
}

// pump writes what is queued as far as the socket takes it without waiting. The
// caller holds the baton, which pump gives back or hands to a goroutine.
func (t *sender) pump() {
	for range inlineBatches {
		if t.b == nil && !t.fill() {
			return
		}
		if t.c.raw == nil || t.cold {
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
	t.patient, t.cold = true, false
	if t.c.raw != nil {
		if err := t.c.raw.Write(t.waitFn); err != nil {
			t.fail(err)
		}
		return
	}
	for t.b != nil || t.fill() {
		if err := t.writeBlocking(); err != nil {
			t.fail(err)
			return
		}
		t.complete()
	}
}

// wait writes until the queue is empty or the socket takes no more (false).
func (t *sender) wait(uintptr) bool {
	for t.b != nil || t.fill() {
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

// write writes the batch, holding its regions for that long. It ends with nil
// when all is written.
func (t *sender) write() error {
	b := t.b
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

// writeBlocking writes the batch to a connection that can only block. A region
// must not be held while that lasts, so the frames are copied.
func (t *sender) writeBlocking() error {
	b := t.b
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

// fill frames what is queued into a new batch. If there is nothing, or the
// sender was stopped, it gives the baton back and says false.
func (t *sender) fill() bool {
	qp := t.c.qp
	qp.Initiator.Lock()
	taken := t.takeLocked()
	qp.Initiator.Unlock()
	return taken && t.frameTaken()
}

// takeLocked begins a new batch with what is queued, which frameTaken frames. If there is
// nothing, or the sender was stopped, it gives the baton back and says false. It may let
// go of the lock meanwhile.
func (t *sender) takeLocked() bool {
	qp := t.c.qp
	for t.part != partRequest && qp.Initiator.Next < qp.Initiator.Cancel {
		t.cancelLocked()
	}
	if t.stopped || qp.held || !t.workLocked() {
		t.releaseLocked()
		return false
	}
	t.b = batches.Get().(*batch)
	most := uint64(batchRequests)
	if qp.Initiator.Next < qp.Initiator.Cancel {
		most = 1 // the one in progress
	}
	for i := qp.Initiator.Next; i != min(qp.Initiator.Requests.Tail, qp.Initiator.Next+most); i++ {
		t.b.requests[t.b.taken] = qp.Initiator.Requests.At(i)
		t.b.taken++
	}
	for i := qp.answers.Head; i != min(qp.answers.Tail, qp.answers.Head+batchRequests); i++ {
		t.b.answers[t.b.asked] = qp.answers.At(i)
		t.b.asked++
	}
	return true
}

// frameTaken frames what was taken into the batch; false says that writing is over for good.
func (t *sender) frameTaken() bool {
	err := t.frameAll()
	t.grip.letGo()
	if err != nil {
		t.fail(err)
		return false
	}
	t.b.seal()
	return true
}

// workLocked tells whether there is something that may be written now.
func (t *sender) workLocked() bool {
	qp := t.c.qp
	return qp.answers.Len() != 0 || qp.Initiator.Next != qp.Initiator.Requests.Tail &&
		(t.part == partRequest || !qp.Initiator.Requests.At(qp.Initiator.Next).Fenced(qp.reads.Len(), t.c.limits.Outbound))
}

// wakeLocked takes the baton if there is something to write and nobody has it.
func (t *sender) wakeLocked() bool {
	qp := t.c.qp
	if qp.Initiator.Sending || qp.held || !t.workLocked() {
		return false
	}
	qp.Initiator.Sending = true
	return true
}

// wake makes sure that somebody writes what can be written.
func (t *sender) wake() {
	qp := t.c.qp
	qp.Initiator.Lock()
	start := t.wakeLocked()
	qp.Initiator.Unlock()
	if start {
		t.pump()
	}
}

// frameAll frames what the batch may take, message after message: requests, and
// answers to the peer in bursts between them.
//
// Source: [RFC 5040 §5.3]
func (t *sender) frameAll() error {
	b := t.b
	for burst := 0; ; {
		requests, answers := b.complete < b.taken, b.answered < b.asked
		switch {
		case answers && t.part != partRequest && (t.part == partAnswer || !requests || burst < answerBurst):
			done, err := t.frameAnswer(b.answers[b.answered])
			if err != nil || !done {
				t.part = partAnswer
				return err
			}
			t.part = partNone
			t.dropAnswer()
			b.answered++
			burst++
		case requests:
			r := b.requests[b.complete]
			if t.part == partNone && t.held(r) {
				b.taken = b.complete
				clear(b.requests[b.taken:])
				continue
			}
			done, err := t.frame(r)
			t.part = partRequest
			if err != nil {
				return err
			}
			if !done {
				if t.offset == 0 {
					t.part = partNone
				}
				return nil
			}
			t.part = partNone
			b.complete++
			burst = 0
		default:
			return nil
		}
	}
}

// held reports whether a request must wait for earlier reads and atomics.
func (t *sender) held(r *softrdma.WorkRequest) bool {
	if !r.Asks() && r.Flags&rdma.FlagReadFence == 0 {
		return false
	}
	t.c.qp.Initiator.Lock()
	defer t.c.qp.Initiator.Unlock()
	return r.Fenced(t.c.qp.reads.Len(), t.c.limits.Outbound)
}

// dropAnswer takes the first answer out, all of which is in frames: the peer,
// which has not got the last of them, may not have begun another read for it.
func (t *sender) dropAnswer() {
	qp := t.c.qp
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	*qp.answers.At(qp.answers.Head) = answer{}
	qp.answers.Head++
}

// cancelLocked ends the requests before queuePair.cancel, none of which is begun.
// It lets go of the lock meanwhile.
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

// releaseLocked gives the baton back.
func (t *sender) releaseLocked() {
	t.patient, t.cold = false, false
	t.c.qp.Initiator.ReleaseSendingLocked()
}

// complete ends the requests that the batch has written to the last byte.
func (t *sender) complete() {
	n := uint64(t.b.complete)
	t.drop()
	t.c.qp.Initiator.Settle(n)
}

// drop gives the batch back.
func (t *sender) drop() {
	b := t.b
	t.b = nil
	if b.file != nil {
		readBuffers.Put(b.file)
	}
	b.reset()
	batches.Put(b)
}

// fail ends writing for good and gives the baton back. Why the connection ended
// is left to the reader to find out, for which it gets a while: the peer may have
// sent a Terminate.
func (t *sender) fail(err error) {
	c := t.c
	t.mid = t.mid || t.b != nil && t.b.touched
	if t.b != nil {
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

// stop makes the writer stop after the batch that it is at, or at once, and waits
// for that.
func (t *sender) stop(abort bool) {
	deadline := longAgo
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

// failure is why writing failed.
func (t *sender) failure() error {
	t.c.qp.Initiator.Lock()
	defer t.c.qp.Initiator.Unlock()
	if t.err == nil {
		return net.ErrClosed
	}
	return t.err
}

// begun tells, once the sender has stopped, whether a request is partly written.
func (t *sender) begun() bool { return t.part == partRequest || t.err != nil }

// clean tells, once the sender has stopped, whether the stream is between frames.
func (t *sender) clean() bool {
	return !t.mid && (t.err == nil || t.c.endingForData(t.err) != nil)
}
