//go:build linux

package shm

import (
	"errors"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// directWait is the size above which a write waits until the ring is empty, if it
// can then be copied straight into its place.
const directWait = 4 << 10

// sender does requests. All fields but the atomic ones belong to who holds the
// baton (queuePair.writing).
type sender struct {
	c       *conn
	out     ring.Producer
	chunk   int           // the most payload of one entry
	results []rdma.Result // not in the completion queue yet
	piece   int           // of the request in progress, where the next byte is
	within  int
	reader  fileReader
	run     fileRun
	lone    lone
	attempt softrdma.WorkRequest  // of a write that does not wait
	current *softrdma.WorkRequest // whose data putFn puts
	held    *softrdma.Region      // that it holds a reference to
	kept    *softrdma.Region      // that messages which are staged come from, with a reference; guarded by queuePair.mu

	slow  bool                   // putFn may wait for a file
	putFn func(dst []byte) error // puts the data of current into the peer's memory
	getFn func(src []byte) error // gets it from there

	waiting atomic.Bool  // for room
	need    atomic.Int64 // how much
	kick    atomic.Bool  // there is a read of the peer to answer, or one of this side was, or pump left something

	answered int  // bytes of the first answer that are in the ring
	turn     bool // an answer goes before a request
}

// Errors of sending.
var (
	errRegionClosed = errors.New("memory region of a request is closed")
	errWouldBlock   = errors.New("the file's pages are not in memory")
)

func (t *sender) init(c *conn) {
	t.c, t.out = c, ring.NewProducer(c.own, c.peer)
	t.chunk = len(c.own.Ring) / 4
	t.results = make([]rdma.Result, 0, softrdma.MaxResults)
	t.reader.init()
	t.run.fn, t.lone.fn = t.placeEach, t.placeWithFile
	t.putFn, t.getFn = t.put, t.get
}

// hasRoom tells whether there is as much room as is waited for.
func (t *sender) hasRoom() bool {
	room, err := t.out.Published()
	return err != nil || int64(room) >= t.need.Load()
}

// pump does requests until the queue is empty, or the ring full. The caller holds
// the baton, which pump gives back, or hands to a goroutine where a file makes it
// wait; slow says that this is that goroutine. Unless most is 0 the rest after so many
// turns is left to run: others may post as fast as this is done, and the caller has
// something else to do.
func (t *sender) pump(slow bool, most int) {
	if qp := t.c.qp; qp.told {
		qp.told = false
		t.c.wake()
	}
	if t.waiting.Load() {
		t.ready()
	}
	for turn := 0; most == 0 || turn < most; turn++ {
		s, a := t.next()
		need, err := 0, error(nil)
		switch {
		case a != nil:
			need, err = t.answer(a)
		case s != nil:
			t.slow = slow
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
			if !t.wait(need) {
				return
			}
		case a != nil:
			t.dropAnswer()
		default:
			t.complete(s, rdma.StatusSuccess)
		}
	}
	t.yield()
}

// yield gives the baton back and lets run go on: who learns of it before finds nothing
// to take, and nobody would come again.
func (t *sender) yield() {
	t.push()
	t.c.qp.releaseSending()
	t.kick.Store(true)
	t.c.nudge()
}

// next is what is to be done next: the first request that is not done, or the
// answer to a read of the peer. If there is neither, the baton is given back.
func (t *sender) next() (*softrdma.WorkRequest, *answer) {
	qp := t.c.qp
	for {
		qp.Initiator.Lock()
		t.results = qp.Initiator.SettleLocked(t.results, softrdma.MaxResults)
		s, a, cancel := t.pickLocked()
		if s == nil && a == nil && len(t.results) == 0 {
			qp.Initiator.ReleaseSendingLocked()
			qp.Initiator.Unlock()
			return nil, nil
		}
		qp.Initiator.Unlock()
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

// pickLocked chooses between a request, which may have to be canceled, and an
// answer.
func (t *sender) pickLocked() (s *softrdma.WorkRequest, a *answer, cancel bool) {
	qp := t.c.qp
	if t.c.ending.Load() != nil {
		return nil, nil, false
	}
	if qp.Initiator.Next != qp.Initiator.Requests.Tail {
		s = qp.Initiator.Requests.At(qp.Initiator.Next)
		if qp.Initiator.Next < qp.Initiator.Cancel && s.Sent == 0 {
			return s, nil, true
		}
		if s.Fenced(qp.reads.Len(), t.c.limits.Outbound) {
			s = nil
		}
	}
	if qp.answers.Len() > 0 && (s == nil || t.turn) {
		return nil, qp.answers.At(qp.answers.Head), false
	}
	t.turn = s != nil
	return s, nil, false
}

// complete ends the request in progress.
func (t *sender) complete(s *softrdma.WorkRequest, status rdma.Status) {
	qp := t.c.qp
	t.piece, t.within = 0, 0
	qp.Initiator.Lock()
	s.Status = status
	qp.Initiator.Next++
	qp.Initiator.Unlock()
}

// push puts results in the completion queue.
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
	t.c.end(t.c.endingFor(err))
}

// wait gives the baton back until there is room. It is true if the caller has the
// baton again, as the room is there already.
func (t *sender) wait(need int) bool {
	t.need.Store(int64(need))
	t.waiting.Store(true)
	t.c.own.Waiting.Store(1)
	if !t.hasRoom() {
		// From here on run finds the room, or the peer wakes it.
		t.c.qp.releaseSending()
		return false
	}
	t.ready()
	return true
}

// ready ends the wait for room.
func (t *sender) ready() {
	t.waiting.Store(false)
	t.c.own.Waiting.Store(0)
}

// step does what it can of a request. need is the room that it waits for, or 0
// when the request is done.
func (t *sender) step(s *softrdma.WorkRequest) (need int, err error) {
	if s.Op == rdma.OpBind || s.Op == rdma.OpInvalidate {
		qp := t.c.qp
		qp.Initiator.Lock()
		defer qp.Initiator.Unlock()
		qp.Initiator.Windows.CarryOutLocked(&s.Window)
		return 0, nil
	}
	if s.Op == rdma.OpSend && s.Flags&rdma.FlagByReference != 0 && s.Sent == 0 {
		if need, done, err := t.lend(s); done || need > 0 || err != nil {
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
			s.Sent = s.Length // and the immediate data follows
		case s.Length > directWait && !t.out.OnlySends() && t.c.targets.knows(uint32(s.Remote.Token)):
			return len(t.c.own.Ring), nil
		}
	}
	if s.Op == rdma.OpRead {
		return t.ask(s)
	}
	if s.Op == rdma.OpWrite && s.Length == 0 && s.Flags&rdma.FlagImmediate == 0 {
		return 0, nil
	}
	for {
		n := min(s.Length-s.Sent, t.chunk)
		if need, err := t.lacks(n); need > 0 || err != nil {
			return need, err
		}
		if err := t.copyOut(s, n); err != nil {
			return 0, err
		}
		if s.Sent == s.Length {
			return 0, nil
		}
	}
}

// lacks tells how much room an entry with n bytes needs, or 0 if there is enough.
func (t *sender) lacks(n int) (int, error) { return t.lacksRoom(ring.EntrySize(n)) }

// lacksRoom is lacks for an entry of that size.
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

// copyOut puts the next n bytes of a request into the ring.
func (t *sender) copyOut(s *softrdma.WorkRequest, n int) error {
	piece, within, real := t.piece, t.within, s.Real
	a, b := t.out.Payload(ring.HeaderSize, n)
	err := t.fill(s, a)
	if err == nil {
		err = t.fill(s, b)
	}
	if err != nil {
		t.piece, t.within, s.Real = piece, within, real
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
	t.c.wake()
	return nil
}

// direct copies a write into its place, or a read from there, if everything before
// it has been placed.
func (t *sender) direct(s *softrdma.WorkRequest) (bool, error) {
	if !t.out.OnlySends() {
		return false, nil
	}
	t.current = s
	right, do := uint64(ring.SlotWrite), t.putFn
	if s.Op == rdma.OpRead {
		right, do = ring.SlotRead, t.getFn
	}
	ok, err := t.c.reach(s.Remote.Addr, uint32(s.Remote.Token), s.Length, right, do)
	t.current = nil
	t.unhold()
	return ok, err
}

// put places the data of the current request.
func (t *sender) put(dst []byte) error {
	s := t.current
	fence := &t.c.targets.fence
	switch {
	case s.File != nil:
		return t.fill(s, dst)
	case s.Flags&rdma.FlagInline != 0:
		softrdma.Place(dst, s.Inline, fence)
		return nil
	case len(dst) <= 8 && len(s.Pieces) > 1:
		var word [8]byte
		if err := t.fill(s, word[:len(dst)]); err != nil {
			return err
		}
		softrdma.Place(dst, word[:len(dst)], fence)
		return nil
	}
	for i := range s.Pieces {
		p := &s.Pieces[i]
		if !t.hold(p.Region) {
			return errRegionClosed
		}
		softrdma.Place(dst[:len(p.Buf)], p.Buf, fence)
		t.unhold()
		dst = dst[len(p.Buf):]
	}
	return nil
}

// hold takes a reference for a copy that may run into a fault of the peer's memory.
func (t *sender) hold(g *softrdma.Region) bool {
	if !g.Acquire() {
		return false
	}
	t.held = g
	return true
}

// unhold gives it back.
func (t *sender) unhold() {
	if t.held != nil {
		t.held.Release()
		t.held = nil
	}
}

// fill takes the next bytes of a request.
func (t *sender) fill(s *softrdma.WorkRequest, dst []byte) error {
	switch {
	case s.File != nil:
		return t.readFile(s, dst)
	case s.Flags&rdma.FlagInline != 0:
		t.within += copy(dst, s.Inline[t.within:])
		return nil
	}
	for len(dst) > 0 {
		p := &s.Pieces[t.piece]
		if !p.Region.Acquire() {
			return errRegionClosed
		}
		n := copy(dst, p.Buf[t.within:])
		p.Region.Release()
		dst = dst[n:]
		if t.within += n; t.within == len(p.Buf) {
			t.piece, t.within = t.piece+1, 0
		}
	}
	return nil
}
