//go:build linux

package shm

import (
	"errors"
	"sync/atomic"

	"lwio/rdma"
)

// directWait is the size above which a write waits until the ring is empty, if it
// can then be copied straight into its place.
const directWait = 4 << 10

// sender does requests. All fields but the atomic ones belong to who holds the
// baton (queuePair.writing).
type sender struct {
	c       *conn
	out     producer
	chunk   int           // the most payload of one entry
	results []rdma.Result // not in the completion queue yet
	piece   int           // of the request in progress, where the next byte is
	within  int
	reader  fileReader
	attempt sendRequest  // of a write that does not wait
	current *sendRequest // whose data putFn puts

	slow  bool                   // putFn may wait for a file
	putFn func(dst []byte) error // puts the data of current into the peer's memory

	waiting atomic.Bool  // for room
	need    atomic.Int64 // how much
}

// Errors of sending.
var (
	errRegionClosed = errors.New("memory region of a request is closed")
	errWouldBlock   = errors.New("the file's pages are not in memory")
)

func (t *sender) init(c *conn) {
	t.c, t.out = c, producer{own: c.own, peer: c.peer}
	t.chunk = len(c.own.ring) / 4
	t.results = make([]rdma.Result, 0, maxResults)
	t.reader.init()
	t.putFn = t.put
}

// hasRoom tells whether there is as much room as is waited for.
func (t *sender) hasRoom() bool {
	room, err := t.out.room()
	return err != nil || int64(room) >= t.need.Load()
}

// pump does requests until the queue is empty, or the ring full. The caller holds
// the baton, which pump gives back, or hands to a goroutine where a file makes it
// wait; slow says that this is that goroutine.
func (t *sender) pump(slow bool) {
	if t.waiting.Load() {
		t.ready()
	}
	for s := t.next(); s != nil; s = t.next() {
		t.slow = slow
		need, err := t.step(s)
		switch {
		case errors.Is(err, errWouldBlock):
			t.push()
			t.c.wg.Add(1)
			go func() {
				defer t.c.wg.Done()
				t.pump(true)
			}()
			return
		case err != nil:
			t.fail(err)
		case need > 0:
			t.push()
			if !t.wait(need) {
				return
			}
		default:
			t.complete(s, rdma.StatusSuccess)
		}
	}
}

// next is the first request that is not done. If there is none, the baton is
// given back.
func (t *sender) next() *sendRequest {
	qp := t.c.qp
	for {
		qp.mu.Lock()
		over := t.c.ending.Load() != nil || qp.next == qp.sends.Tail
		if over && len(t.results) == 0 {
			qp.writing = false
			qp.idle.Broadcast()
			qp.mu.Unlock()
			return nil
		}
		if over {
			qp.mu.Unlock()
			t.push()
			continue
		}
		s := qp.sends.At(qp.next)
		cancel := qp.next < qp.cancel && s.sent == 0
		qp.mu.Unlock()
		if !cancel {
			return s
		}
		t.complete(s, rdma.StatusCanceled)
	}
}

// complete ends the request in progress.
func (t *sender) complete(s *sendRequest, status rdma.Status) {
	qp := t.c.qp
	t.piece, t.within = 0, 0
	qp.mu.Lock()
	res := s.finish(qp, status)
	qp.next++
	if status == rdma.StatusSuccess && s.flags&rdma.FlagSilentSuccess != 0 {
		qp.mu.Unlock()
		return
	}
	qp.sends.Head = qp.next
	qp.mu.Unlock()
	if t.results = append(t.results, res); len(t.results) == maxResults {
		t.push()
	}
}

// push puts results in the completion queue.
func (t *sender) push() {
	t.c.qp.initiatorCQ.Push(t.results)
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
	t.c.own.want.Store(1)
	if !t.hasRoom() {
		// From here on run finds the room, or the peer wakes it.
		t.c.qp.releaseBaton()
		return false
	}
	t.ready()
	return true
}

// ready ends the wait for room.
func (t *sender) ready() {
	t.waiting.Store(false)
	t.c.own.want.Store(0)
}

// step does what it can of a request. need is the room that it waits for, or 0
// when the request is done.
func (t *sender) step(s *sendRequest) (need int, err error) {
	if s.op == rdma.OpWrite && s.sent == 0 {
		if s.length == 0 {
			return 0, nil
		}
		if done, err := t.direct(s); done || err != nil {
			return 0, err
		}
		if s.length > directWait && !t.out.drained() && t.c.targets.knows(uint32(s.remote.Token)) {
			return len(t.c.own.ring), nil
		}
	}
	for {
		n := min(s.length-s.sent, t.chunk)
		room, err := t.out.room()
		if err != nil {
			return 0, &violation{status: rdma.StatusRemoteError, err: err}
		}
		if size := entrySize(n); room < size {
			return size, nil
		}
		if err := t.copyOut(s, n); err != nil {
			return 0, err
		}
		if s.sent == s.length {
			return 0, nil
		}
	}
}

// copyOut puts the next n bytes of a request into the ring.
func (t *sender) copyOut(s *sendRequest, n int) error {
	piece, within := t.piece, t.within
	a, b := t.out.payload(n)
	err := t.fill(s, a)
	if err == nil {
		err = t.fill(s, b)
	}
	if err != nil {
		t.piece, t.within = piece, within
		return err
	}
	e := entry{length: uint32(n), total: uint32(s.length - s.sent)}
	if s.op == rdma.OpSend {
		e.kind = entrySend
		if s.sent == 0 {
			e.flags |= entryFirst
		}
		if s.flags&rdma.FlagSolicitEvent != 0 {
			e.flags |= entrySolicited
		}
	} else {
		e.kind, e.token, e.addr = entryWrite, uint32(s.remote.Token), s.remote.Addr+uint64(s.sent)
	}
	t.out.publish(e)
	s.sent += n
	t.c.wake()
	return nil
}

// direct copies a write into its place, if everything before it has been placed.
func (t *sender) direct(s *sendRequest) (bool, error) {
	if !t.out.drained() {
		return false, nil
	}
	t.current = s
	ok, err := t.c.writeDirect(s.remote.Addr, uint32(s.remote.Token), s.length, t.putFn)
	t.current = nil
	return ok, err
}

// put places the data of the current request.
func (t *sender) put(dst []byte) error {
	s := t.current
	fence := &t.c.targets.fence
	switch {
	case s.file != nil:
		return t.fill(s, dst)
	case s.flags&rdma.FlagInline != 0:
		place(dst, s.inline, fence)
		return nil
	case len(dst) <= 8 && len(s.pieces) > 1:
		var word [8]byte
		if err := t.fill(s, word[:len(dst)]); err != nil {
			return err
		}
		place(dst, word[:len(dst)], fence)
		return nil
	}
	for i := range s.pieces {
		p := &s.pieces[i]
		if !p.region.acquire() {
			return errRegionClosed
		}
		place(dst[:len(p.buf)], p.buf, fence)
		p.region.release()
		dst = dst[len(p.buf):]
	}
	return nil
}

// fill takes the next bytes of a request.
func (t *sender) fill(s *sendRequest, dst []byte) error {
	switch {
	case s.file != nil:
		return t.readFile(s, dst)
	case s.flags&rdma.FlagInline != 0:
		t.within += copy(dst, s.inline[t.within:])
		return nil
	}
	for len(dst) > 0 {
		p := &s.pieces[t.piece]
		if !p.region.acquire() {
			return errRegionClosed
		}
		n := copy(dst, p.buf[t.within:])
		p.region.release()
		dst = dst[n:]
		if t.within += n; t.within == len(p.buf) {
			t.piece, t.within = t.piece+1, 0
		}
	}
	return nil
}
