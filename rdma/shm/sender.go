//go:build linux

package shm

import (
	"errors"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// directWait is the size in bytes above which a write waits until the ring is empty, if
// it can then be copied directly into the peer's memory.
const directWait = 4 << 10

// sender carries out work requests and answers the peer's reads. All fields but the
// atomic ones belong to the goroutine that has the right to send
// (InitiatorQueue.Sending).
type sender struct {
	c       *conn
	out     ring.Producer
	chunk   int           // the largest payload of one entry
	results []rdma.Result // results that are not in the completion queue yet
	data    requestData
	room    roomWait
	reads   readResponder
	files   fileWriter
	turn    bool // a read of the peer comes before the next request

	// staged is the region of the staged messages. The lock of the initiator queue guards
	// it.
	staged regionRef
	// more is set when run, or a poller, must continue to send: the peer's read needs an
	// answer, a read of this side was answered, or pump left work.
	more atomic.Bool
}

func (t *sender) init(c *conn) {
	t.c, t.out = c, ring.NewProducer(c.own, c.peer)
	t.chunk = len(c.own.Ring) / 4
	t.results = make([]rdma.Result, 0, softrdma.MaxResults)
	t.data.init(&c.mappings.fence)
	t.room.init(c.own, &t.out)
	t.reads.t = t
	t.files.init(t)
}

// roomWait is the wait of the sender for room in the ring.
type roomWait struct {
	own     *ring.Segment
	out     *ring.Producer
	waiting atomic.Bool
	need    atomic.Int64 // bytes
}

func (w *roomWait) init(own *ring.Segment, out *ring.Producer) { w.own, w.out = own, out }

// begin starts a wait for need bytes. From then on the peer wakes this side when it takes
// entries.
func (w *roomWait) begin(need int) {
	w.need.Store(int64(need))
	w.waiting.Store(true)
	w.own.Waiting.Store(1)
}

// end ends the wait.
func (w *roomWait) end() {
	w.waiting.Store(false)
	w.own.Waiting.Store(0)
}

// satisfied reports whether there is as much room as the sender waits for. Any goroutine
// may call it while the segments are mapped.
func (w *roomWait) satisfied() bool {
	room, err := w.out.Published()
	return err != nil || int64(room) >= w.need.Load()
}

// pump carries out requests until the queue is empty or the ring is full. The caller has
// the right to send. pump releases it, or passes it to a goroutine that may wait for a
// file; slow means that the caller is that goroutine. If most is not 0, pump stops after
// most turns and leaves the rest to run: other goroutines may post as fast as it sends,
// and the caller has other work.
func (t *sender) pump(slow bool, most int) {
	if qp := t.c.qp; qp.unannounced {
		qp.unannounced = false
		t.c.waker.wake()
	}
	if t.room.waiting.Load() {
		t.room.end()
	}
	for turn := 0; most == 0 || turn < most; turn++ {
		s, a := t.next()
		need, err := 0, error(nil)
		switch {
		case a != nil:
			need, err = t.reads.respond(a)
		case s != nil:
			t.data.mayWait = slow
			need, err = t.step(s)
		default:
			return
		}
		switch {
		case errors.Is(err, errWouldBlock):
			t.push()
			t.c.wg.Add(1)
			go func() {
				defer t.c.wg.Done()
				t.pump(true, 0)
			}()
			return
		case err != nil:
			t.fail(err)
		case need > 0:
			t.push()
			if !t.awaitRoom(need) {
				return
			}
		case a != nil:
			t.reads.finish()
			t.turn = false
		default:
			t.complete(s, rdma.StatusSuccess)
		}
	}
	t.yield()
}

// yield releases the right to send and leaves the rest to run. more is set after the
// release: a goroutine that reads more before the release would find nothing to do and
// not return.
func (t *sender) yield() {
	t.push()
	t.c.qp.releaseSending()
	t.more.Store(true)
	t.c.nudge()
}

// next returns the first unsent request, or the read of the peer to answer. If there is
// neither, it releases the right to send.
func (t *sender) next() (*softrdma.WorkRequest, *peerRead) {
	q := &t.c.qp.Initiator
	for {
		q.Lock()
		t.results = q.SettleLocked(t.results, softrdma.MaxResults)
		s, a, cancel := t.pickLocked()
		if s == nil && a == nil && len(t.results) == 0 {
			q.ReleaseSendingLocked()
			q.Unlock()
			return nil, nil
		}
		q.Unlock()
		switch {
		case cancel:
			t.complete(s, rdma.StatusCanceled)
		case s == nil && a == nil || len(t.results) == softrdma.MaxResults:
			t.push()
		default:
			return s, a
		}
	}
}

// pickLocked chooses between a request, which may have to be canceled, and a read of the
// peer.
func (t *sender) pickLocked() (s *softrdma.WorkRequest, a *peerRead, cancel bool) {
	qp := t.c.qp
	q := &qp.Initiator
	if t.c.ending.Load() != nil {
		return nil, nil, false
	}
	if q.Next != q.Requests.Tail {
		s = q.Requests.At(q.Next)
		if q.Next < q.Cancel && s.Sent == 0 {
			return s, nil, true
		}
		if s.Fenced(qp.reads.Len(), t.c.limits.Outbound) {
			s = nil
		}
	}
	if qp.peerReads.Len() > 0 && (s == nil || t.turn) {
		return nil, qp.peerReads.At(qp.peerReads.Head), false
	}
	t.turn = s != nil
	return s, nil, false
}

// complete ends the request in progress.
func (t *sender) complete(s *softrdma.WorkRequest, status rdma.Status) {
	q := &t.c.qp.Initiator
	t.data.reset()
	q.Lock()
	s.Status = status
	q.Next++
	q.Unlock()
}

// push pushes the results to the completion queue.
func (t *sender) push() {
	t.c.qp.Queues.Initiator.Push(t.results)
	t.results = t.results[:0]
}

// fail ends the connection.
func (t *sender) fail(err error) {
	var v *violation
	if !errors.As(err, &v) {
		err = &violation{status: rdma.StatusDataError, err: err}
	}
	t.c.fail(err)
}

// awaitRoom releases the right to send until there is room. If there is room already, it
// returns true and the caller keeps the right.
func (t *sender) awaitRoom(need int) bool {
	t.room.begin(need)
	if !t.room.satisfied() {
		// From now on run finds the room, or the peer wakes run.
		t.c.qp.releaseSending()
		return false
	}
	t.room.end()
	return true
}

// step carries out a request up to the available room. need is the room that it waits
// for, or 0 when the request is sent.
func (t *sender) step(s *softrdma.WorkRequest) (need int, err error) {
	if s.Op == rdma.OpBind || s.Op == rdma.OpInvalidate {
		q := &t.c.qp.Initiator
		q.Lock()
		defer q.Unlock()
		q.Windows.CarryOutLocked(&s.Window)
		return 0, nil
	}
	if s.Op == rdma.OpSend && s.Flags&rdma.FlagByReference != 0 && s.Sent == 0 {
		if need, done, err := t.sendByReference(s); done || need > 0 || err != nil {
			return need, err
		}
	}
	if s.Op != rdma.OpSend && s.Sent == 0 && s.Length > 0 {
		done, err := t.direct(s)
		switch {
		case err != nil:
			return 0, err
		case done && s.Flags&rdma.FlagImmediate == 0:
			return 0, nil
		case done:
			s.Sent = s.Length // the immediate data follows
		case s.Length > directWait && !t.out.OnlySends() && t.c.mappings.knows(uint32(s.Remote.Token)):
			return len(t.c.own.Ring), nil
		}
	}
	if s.Op == rdma.OpRead {
		return t.requestRead(s)
	}
	if s.Op == rdma.OpWrite && s.Length == 0 && s.Flags&rdma.FlagImmediate == 0 {
		return 0, nil
	}
	for {
		n := min(s.Length-s.Sent, t.chunk)
		if need, err := t.lacks(n); need > 0 || err != nil {
			return need, err
		}
		if err := t.copyToRing(s, n); err != nil {
			return 0, err
		}
		if s.Sent == s.Length {
			return 0, nil
		}
	}
}

// lacks returns the size of an entry with n bytes of payload if the ring has less room,
// else 0.
func (t *sender) lacks(n int) (int, error) { return t.lacksRoom(ring.EntrySize(n)) }

// lacksRoom is lacks for an entry of size bytes.
func (t *sender) lacksRoom(size int) (int, error) {
	room, err := t.out.Room(size)
	switch {
	case err != nil:
		return 0, &violation{status: rdma.StatusRemoteError, err: err}
	case room < size:
		return size, nil
	}
	return 0, nil
}

// copyToRing puts the next n bytes of a request into the ring.
func (t *sender) copyToRing(s *softrdma.WorkRequest, n int) error {
	a, b := t.out.Payload(ring.HeaderSize, n)
	if err := t.data.fillBoth(s, a, b); err != nil {
		return err
	}
	e := ring.Entry{Length: uint32(n), Total: uint32(s.Length - s.Sent)}
	if s.Op == rdma.OpSend {
		e.Kind = ring.Send
		if s.Sent == 0 {
			e.Flags |= ring.FlagFirst
		}
		if s.Flags&rdma.FlagSolicitEvent != 0 {
			e.Flags |= ring.FlagSolicited
		}
	} else {
		e.Kind, e.Token, e.Addr = ring.Write, uint32(s.Remote.Token), s.Remote.Addr+uint64(s.Sent)
		if s.Flags&rdma.FlagImmediate != 0 && s.Sent+n == s.Length {
			e.Flags, e.Immediate = ring.FlagImmediate, s.Immediate
		}
	}
	t.out.Publish(&e)
	s.Sent += n
	t.c.waker.wake()
	return nil
}

// direct copies a write directly into the peer's memory, or a read out of it. It does so
// only if all earlier writes and reads are placed and the memory can be accessed
// directly; otherwise it returns false.
func (t *sender) direct(s *softrdma.WorkRequest) (bool, error) {
	if !t.out.OnlySends() {
		return false, nil
	}
	d := &t.data
	d.current = s
	right, do := uint64(ring.SlotWrite), d.copyIn
	if s.Op == rdma.OpRead {
		right, do = ring.SlotRead, d.copyOut
	}
	ok, err := t.c.mappings.access(s.Remote.Addr, uint32(s.Remote.Token), s.Length, right, do)
	d.current = nil
	d.held.drop()
	return ok, err
}
