package server

import (
	"encoding/binary"
	"sync"
	"testing"

	"lwio/internal/wire"
	"lwio/rdma"
)

// FuzzDispatch feeds the dispatcher of a connection with arbitrary messages, as a provider would,
// and demands that each is answered at most once, that nothing is left over, and that credits
// come back. Input: for each message its size (2 bytes), with the highest bit set if the next
// one comes together with it, and its bytes. If the number of all bytes is odd, reads may be
// completed by immediate data.
//
// Source: [OP-27] [OP-63] [OP-92e] [OP-92h] [OP-106]
func FuzzDispatch(f *testing.F) {
	add := func(msgs ...[]byte) {
		for _, with := range []uint16{0, together} {
			var in []byte
			for _, m := range msgs {
				in = binary.LittleEndian.AppendUint16(in, uint16(len(m))|with)
				in = append(in, m...)
			}
			f.Add(in)
			f.Add(append(in, make([]byte, 1-len(in)%2)...))
		}
	}
	one := func(h wire.Header, body ...byte) []byte { return append(h.AppendTo(nil), body...) }
	poll := completion{Polling: true, IosVa: 8, IosMh: 9}
	ask := completion{Cookie: 3, ImmediateCookie: 4}
	region := wire.RDMARegion{DataVa: 1, DataMh: 2, Length: 4096}
	add(one(by(wire.NewRead(1, 0, region), ask)), one(by(wire.NewRead(1, 50, region), poll)))
	add(one(by(wire.NewWrite(1, 5, 3), ask), 1, 2, 3), one(by(wire.NewWrite(2, 5, 0), poll)))
	add(one(by(wire.NewVecRead(1, 0, 4096, 1, 4096), ask), region.AppendTo(nil)...))
	add(one(by(wire.NewCollapse(2, 0, 1000, 512), ask), make([]byte, 512)...))
	add(one(by(wire.NewClose(1), completion{Cookie: 4})), one(by(wire.NewRead(1, 0, region), ask)), one(by(wire.NewCancel(2), completion{Cookie: 5})))
	hungry := by(wire.NewRead(1, 0, region), ask)
	hungry.SetPending(10)
	add(one(hungry), one(by(wire.NewCredit(2), completion{Cookie: 8})), one(hungry))
	add(one(hungry), one(hungry), one(by(wire.NewCredit(0), completion{Cookie: 8})), one(by(wire.NewCredit(0), completion{Cookie: 8})))
	add(one(by(wire.NewInterrupt(1), completion{Cookie: 6})), one(by(wire.NewInterrupt(255), completion{Cookie: 7})), one(by(wire.NewRead(1, 0, region), poll)))
	add(one(by(wire.NewCredit(-1), completion{Cookie: 8})), one(by(wire.NewAuth(67, region), completion{Cookie: 9}), make([]byte, 67)...))
	add(one(by(wire.NewRegister(), completion{Cookie: 1}), make([]byte, 36)...))
	held := wire.FileLock{Offset: 5, Length: 10, Sequence: 0x11}
	add(one(by(wire.NewLock(1, held, false), ask)), one(by(wire.NewLock(2, held, true), poll)), one(by(wire.NewUnlock(1, held), poll)))
	add(one(by(wire.NewSync(1), poll)), one(by(wire.NewSync(1), ask)), one(by(wire.NewCancel(1), completion{Cookie: 5})))
	add(one(by(wire.NewSetSize(1, 100), ask)), one(by(wire.NewStat(1, region), poll)), one(by(wire.NewStat(2, region), ask)))
	add(one(by(wire.NewLookup(3, region), poll), 'f'), one(by(wire.NewLookup(3, region), ask)), one(by(wire.NewLookup(1, region), ask), 'f'))
	add(one(by(wire.NewLookup(3, region), ask), []byte("none/f")...), one(by(wire.NewRead(3, 0, region), ask)), one(by(wire.NewSync(3), ask)),
		one(by(wire.NewSetSize(3, 1), ask)), one(by(wire.NewLock(3, held, false), ask)), one(by(wire.NewStat(3, region), ask)))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, qp := newFuzzConn(t)
		c.fabric.immediate = len(in)%2 != 0
		var msgs [][]byte
		for len(in) >= 2 {
			size := binary.LittleEndian.Uint16(in)
			n := min(int(size&^together), len(in)-2)
			msg := in[2 : 2+n]
			in = in[2+n:]
			if len(msg) > wire.HeaderSize+c.fabric.layout.dataSize {
				break
			}
			msgs = append(msgs, msg)
			if size&together != 0 && len(in) >= 2 {
				continue
			}
			if !qp.receive(c, msgs...) {
				break
			}
			msgs = nil
		}
		c.jobs.Wait()
		if err := qp.settle(c); err != nil {
			t.Fatal(err)
		}
		qp.finish(t, c)
	})
}

// together, in the size of a message: the next one comes with it.
const together = 1 << 15

// fuzzQueue is a queue pair that delivers nothing and records all requests.
type fuzzQueue struct {
	rdma.QueuePair

	c      *conn
	window int

	mu                sync.Mutex
	entries           []int32 // receives posted
	arrived, answered int
	done              []uint64
	cut               bool
}

func (q *fuzzQueue) Post(reqs []rdma.Request) (int, error) {
	q.mu.Lock() // a growth that begins now posts its receives later
	defer q.mu.Unlock()
	k := q.c.credits.snapshot()
	for i := range reqs {
		if !reqs[i].Op.Allows(reqs[i].Flags) || len(reqs[i].SGL) != 1 {
			panic("an illegal request")
		}
		if reqs[i].Flags&rdma.FlagImmediate != 0 && (!q.c.fabric.immediate || reqs[i].Immediate == 0) {
			panic("immediate data without need")
		}
		if reqs[i].SGL[0].Length > q.window { // [OP-60]
			panic("an RDMA write above the client's window")
		}
		if reqs[i].Flags&rdma.FlagSilentSuccess != 0 {
			continue
		}
		q.done = append(q.done, reqs[i].ID)
		q.answered += int(reqs[i].ID >> idAnswers & idCount)
		if reqs[i].ID&idKind == idAnswer && uint32(reqs[i].ID) != q.c.notice.index {
			q.answered++
		}
	}
	n := q.arrived - q.answered + len(q.entries)
	if least := k.grant + k.extra; n < least || n > least+max(k.delta, 0)+q.c.fabric.layout.ahead { // [OP-66b]
		panic("an answer was posted before the receive that it allows the client to use")
	}
	return len(reqs), nil
}

func (q *fuzzQueue) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range reqs {
		for _, s := range q.entries {
			if uint64(s) == r.ID {
				panic("a receive posted twice")
			}
		}
		q.entries = append(q.entries, int32(r.ID))
	}
	return len(reqs), nil
}

// receive is the arrival of messages that come together; false if there was no receive for all of
// them, or the connection has ended.
func (q *fuzzQueue) receive(c *conn, msgs ...[]byte) bool {
	if q.settle(c) != nil {
		return false
	}
	var all []rdma.Result
	for _, msg := range msgs {
		if r, ok := q.arrive(c, msg); ok {
			all = append(all, r)
		}
	}
	if err := c.loop.handleAll(all); err != nil {
		q.cut = true
		return false
	}
	c.flush()
	return len(all) == len(msgs)
}

// arrive takes a receive for a message; false if there is none.
func (q *fuzzQueue) arrive(c *conn, msg []byte) (r rdma.Result, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.entries) == 0 {
		return r, false
	}
	entry := q.entries[0]
	q.entries = q.entries[1:]
	q.arrived++
	n := copy(c.receives.mem[int(entry)*c.receives.layout.header:][:c.receives.headerSize()], msg)
	copy(c.receives.data(entry), msg[n:])
	return rdma.Result{Op: rdma.OpReceive, ID: uint64(entry), Bytes: len(msg)}, true
}

// settle completes all posted requests.
func (q *fuzzQueue) settle(c *conn) error {
	for {
		q.mu.Lock()
		done := q.done
		q.done = nil
		q.mu.Unlock()
		if len(done) == 0 {
			return nil
		}
		for _, id := range done {
			if err := c.loop.handle(&rdma.Result{Op: rdma.OpSend, ID: id}); err != nil {
				return err
			}
		}
		c.flush()
		c.jobs.Wait()
	}
}

// finish demands that everything came back, except an INTERRUPT that waits.
func (q *fuzzQueue) finish(t *testing.T, c *conn) {
	if q.cut {
		c.releaseFiles()
		return
	}
	s := &c.send
	s.mu.Lock()
	defer s.mu.Unlock()
	parked := 0
	if s.wakeups.armed != nil {
		parked = 1
	}
	switch pending := s.wakeups.pending.Load(); {
	case pending != 0 || !s.outbox.empty() || !c.ready.empty():
		t.Fatalf("%d requests unanswered", pending)
	case s.entries != c.fabric.layout.depth || s.inUse.Load() != 0:
		t.Fatalf("%d of %d entries came back", s.entries, c.fabric.layout.depth)
	case len(q.entries) != c.fabric.layout.ahead+c.credits.grant+c.credits.extra-parked:
		t.Fatalf("%d receives posted for %d credits", len(q.entries), c.credits.grant)
	case len(c.ops.free) != len(c.ops.all)-1-parked:
		t.Fatalf("%d of %d operations free", len(c.ops.free), len(c.ops.all))
	case c.poolBytes != 0:
		t.Fatalf("%d bytes of memory are held", c.poolBytes)
	}
	for _, f := range c.files.byID {
		if n := f.refs.Load(); n != 1 || f.closer != nil {
			t.Fatalf("file %d has %d references", f.id, n)
		}
	}
}

// releaseFiles ends the use of files by all operations, as the teardown does.
func (c *conn) releaseFiles() {
	for _, o := range c.ops.all {
		if o.holds {
			o.holds = false
			o.file.release()
		}
	}
}
