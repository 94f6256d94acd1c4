package iwarp

import (
	"errors"
	"net"
	"time"

	"lwio/rdma"
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

	b      *batch
	msn    uint32 // of the next Send
	offset int    // bytes of request queuePair.next that are in frames already
	piece  int    // where they end
	within int

	stopped bool  // guarded by queuePair.mu: take no more requests
	err     error // why writing failed
	mid     bool  // the stream was left in the middle of a frame

	attempt error // outcome of tryFn
	tryFn   func(fd uintptr) bool
	waitFn  func(fd uintptr) bool
	runFn   func()
}

func (t *sender) init(c *conn, limit int) {
	t.c, t.msn = c, 1
	t.maxTagged, t.maxUntagged = payloadFor(limit, taggedSize), payloadFor(limit, untaggedSize)
	t.tryFn = func(fd uintptr) bool {
		t.attempt = t.write(int(fd))
		return true
	}
	t.waitFn = t.wait
	t.runFn = t.run
}

// pump writes what is queued as far as the socket takes it without waiting. The
// caller holds the baton, which pump gives back or hands to a goroutine.
func (t *sender) pump() {
	for range inlineBatches {
		if t.b == nil && !t.fill() {
			return
		}
		if t.c.raw == nil {
			break
		}
		err := t.c.raw.Write(t.tryFn)
		if err == nil {
			err = t.attempt
		}
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
func (t *sender) wait(fd uintptr) bool {
	for t.b != nil || t.fill() {
		switch err := t.write(int(fd)); {
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
func (t *sender) write(fd int) error {
	b := t.b
	if !b.acquire() {
		return errRegionClosed
	}
	defer b.release()
	for {
		n, err := b.writeSocket(fd)
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
	if !b.acquire() {
		return errRegionClosed
	}
	var frames []byte
	for _, p := range b.parts {
		frames = append(frames, p...)
	}
	b.release()
	n, err := t.c.nc.Write(frames)
	b.touched = n > 0
	return err
}

// fill frames what is queued into a new batch. If there is nothing, or the
// sender was stopped, it gives the baton back and says false.
func (t *sender) fill() bool {
	qp := t.c.qp
	qp.mu.Lock()
	for t.offset == 0 && qp.next < qp.cancel {
		t.cancelLocked()
	}
	if t.stopped || qp.next == qp.sends.tail {
		t.releaseLocked()
		qp.mu.Unlock()
		return false
	}
	t.b = t.c.a.p.batches.Get().(*batch)
	most := uint64(batchRequests)
	if qp.next < qp.cancel {
		most = 1 // the one in progress
	}
	for i := qp.next; i != min(qp.sends.tail, qp.next+most); i++ {
		t.b.requests[t.b.taken] = qp.sends.at(i)
		t.b.taken++
	}
	qp.mu.Unlock()
	for _, r := range t.b.requests[:t.b.taken] {
		done, ok := t.frame(r)
		if !ok {
			t.fail(errRegionClosed)
			return false
		}
		if !done {
			break
		}
		t.b.complete++
	}
	t.b.seal()
	return true
}

// cancelLocked ends the requests before queuePair.cancel, none of which is begun.
// It lets go of the lock meanwhile.
func (t *sender) cancelLocked() {
	qp := t.c.qp
	var results []rdma.Result
	for ; qp.next < qp.cancel; qp.next++ {
		r := qp.sends.at(qp.next)
		clear(r.pieces)
		results = append(results, rdma.Result{Status: rdma.StatusCanceled, Op: r.op, QueuePair: qp.cfg.Context, ID: r.id})
	}
	qp.sends.head = qp.next
	qp.mu.Unlock()
	qp.initiatorCQ.push(results)
	qp.mu.Lock()
}

// releaseLocked gives the baton back.
func (t *sender) releaseLocked() {
	t.c.qp.writing = false
	t.c.qp.idle.Broadcast()
}

// complete ends the requests that the batch has written to the last byte: their
// slots are free before their results appear. A silent one keeps its slot until
// a later one with a result ends.
func (t *sender) complete() {
	b, qp := t.b, t.c.qp
	results := b.results[:0]
	qp.mu.Lock()
	for _, r := range b.requests[:b.complete] {
		qp.next++
		clear(r.pieces)
		if r.flags&rdma.FlagSilentSuccess == 0 {
			results = append(results, rdma.Result{Op: r.op, QueuePair: qp.cfg.Context, ID: r.id})
			qp.sends.head = qp.next
		}
	}
	qp.mu.Unlock()
	qp.initiatorCQ.push(results) // before the batch, whose memory this is, goes back
	t.drop()
}

// drop gives the batch back.
func (t *sender) drop() {
	b := t.b
	t.b = nil
	b.reset()
	t.c.a.p.batches.Put(b)
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
	c.qp.mu.Lock()
	t.err, t.stopped = err, true
	t.releaseLocked()
	c.qp.mu.Unlock()
	if errors.Is(err, errRegionClosed) {
		c.end(&ending{
			err:    opError("connection", c.peer, rdma.StatusAccessViolation, err),
			term:   &terminate{fault: faultLocal},
			partly: rdma.StatusAccessViolation,
		})
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
	qp.mu.Lock()
	defer qp.mu.Unlock()
	t.stopped = true
	for qp.writing {
		qp.idle.Wait()
	}
}

// failure is why writing failed.
func (t *sender) failure() error {
	t.c.qp.mu.Lock()
	defer t.c.qp.mu.Unlock()
	if t.err == nil {
		return net.ErrClosed
	}
	return t.err
}

// begun tells, once the sender has stopped, whether a request is partly written.
func (t *sender) begun() bool { return t.offset != 0 || t.err != nil }

// clean tells, once the sender has stopped, whether the stream is between frames.
func (t *sender) clean() bool { return !t.mid && (t.err == nil || errors.Is(t.err, errRegionClosed)) }
