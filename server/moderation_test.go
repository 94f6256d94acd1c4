package server

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/wire"
	"lwio/rdma"
)

// stream is a completion queue that has a completion at each poll: first the given ones, then
// completions without an answer, until over reports the end.
type stream struct {
	rdma.CompletionQueue

	first []rdma.Result
	over  func(polls int) bool
	polls int
}

func (s *stream) Poll(results []rdma.Result) (int, error) {
	if s.polls++; s.over(s.polls) {
		return 0, nil
	}
	if len(s.first) > 0 {
		results[0], s.first = s.first[0], s.first[1:]
		return 1, nil
	}
	results[0] = rdma.Result{Op: rdma.OpSend, ID: requestID(idProgress, 0, 0, 0)}
	return 1, nil
}

// An answer is posted though the client claims to have many more requests in flight, and though
// other completions arrive all the time.
//
// Source: [LWIO §Wakeup]
func TestAnswerIsPostedAmongOtherCompletions(t *testing.T) {
	c, qp := newFuzzConn(t)
	h := by(wire.NewRead(99, 0, wire.RDMARegion{Length: 8}), completion{Cookie: 3})
	h.SetPending(c.credits.grant)
	entry := qp.entries[0]
	qp.entries, qp.arrived = qp.entries[1:], 1
	h.AppendTo(c.receives.header(entry)[:0])
	const most = 1000
	q := &stream{
		first: []rdma.Result{{Op: rdma.OpReceive, ID: uint64(entry), Bytes: wire.HeaderSize}},
		over:  func(polls int) bool { return qp.answered > 0 || polls == most },
	}
	c.loop.cq = q
	if _, err := c.loop.drain(new([pollSize]rdma.Result)); err != nil {
		t.Fatal(err)
	}
	if q.polls == most {
		t.Fatal("the answer is held for as long as there are results")
	}
}

// postHook is a queue pair that calls a function at the first post.
type postHook struct {
	rdma.QueuePair
	once sync.Once
	do   func()
}

func (q *postHook) Post(reqs []rdma.Request) (int, error) {
	q.once.Do(q.do)
	return q.QueuePair.Post(reqs)
}

// A worker's answer that another goroutine posts together with its own does not count as held:
// else the next one would not start the timer.
//
// Source: [LWIO §Wakeup]
func TestPostedAnswerIsNotHeld(t *testing.T) {
	c, _ := newFuzzConn(t)
	c.send.wakeups.pending.Store(5)
	answered := func() *op {
		o, err := c.ops.take(c)
		if err != nil {
			t.Fatal(err)
		}
		o.h.Flags, o.io = wire.FlagInterrupt, true
		return o
	}
	first, second := answered(), answered()
	c.setQueues(nil, &postHook{QueuePair: nullPair{}, do: func() { c.deliver(second, time.Now()) }})
	c.deliver(first, time.Time{}) // took so long that it is posted at once
	c.send.mu.Lock()
	empty, held := c.send.outbox.empty(), c.send.held.n
	c.send.mu.Unlock()
	if !empty || held != 0 {
		t.Errorf("%d answers count as held, and the outbox is empty: %v", held, empty)
	}
	c.jobs.Wait()
}

// nullPair accepts all requests.
type nullPair struct{ rdma.QueuePair }

func (nullPair) Post(reqs []rdma.Request) (int, error) { return len(reqs), nil }

// A send queue that posts nothing any more holds no answer.
func TestDeadQueueHoldsNothing(t *testing.T) {
	c, _ := newFuzzConn(t)
	c.setQueues(nil, nullPair{})
	o, err := c.ops.take(c)
	if err != nil {
		t.Fatal(err)
	}
	o.h.Flags, o.io = wire.FlagInterrupt, true
	c.send.wakeups.pending.Store(5)
	c.send.kill()
	c.deliver(o, time.Now())
	c.send.mu.Lock()
	defer c.send.mu.Unlock()
	if h := &c.send.held; h.n != 0 || h.timer != nil {
		t.Error("an answer is held that is never posted")
	}
}

// An answer is held while a worker will soon have more to send with it: so many that
// waking the client pays, or fewer where it polls and each costs a system call.
//
// Source: [LWIO §Wakeup]
func TestHeldAnswersUntilEnough(t *testing.T) {
	for _, tt := range []struct {
		shared        bool
		wakes         bool
		pending, held int           // outstanding, and answered before
		took, since   time.Duration // the work, and from the first that is held
		want          bool
	}{
		{false, true, 16, 14, 0, 0, true},
		{false, true, 16, 15, 0, 0, true},
		{false, true, 16, 16, 0, 0, false},
		{false, true, 0, 0, 0, 0, false},
		{false, true, 1, 0, 0, 0, true},
		{false, true, 16, 1, holdTime, holdTime, true},
		{false, true, 16, 1, holdTime + 1, 0, false},
		{false, true, 16, 1, 0, holdTime + 1, false},
		{true, true, 16, 14, 0, 0, true},
		{true, true, 12, 19, 0, 0, true},
		{true, true, 11, 20, 0, 0, false},
		{true, true, 7, 6, 0, 0, true},
		{true, true, 7, 7, 0, 0, false},
		{false, false, 16, polledEnough - 2, 0, 0, true},
		{false, false, 16, polledEnough - 1, 0, 0, false},
		{false, false, 2, 0, 0, 0, true},
		{false, false, 2, 1, 0, 0, false},
		{false, false, 1, 0, 0, 0, false},
		{false, false, 0, 0, 0, 0, false},
		{false, false, 16, 1, polledTime, polledTime, true},
		{false, false, 16, 1, polledTime + 1, 0, false},
		{false, false, 16, 1, 0, polledTime + 1, false},
		{true, false, 16, 1, 0, 0, false},
	} {
		var jobs sync.WaitGroup
		now := time.Now()
		h := heldAnswers{sharedMemory: tt.shared, jobs: &jobs, post: func() {}, n: tt.held, since: now.Add(-tt.since)}
		got := h.hold(1, tt.pending, tt.wakes, now.Add(-tt.took), now)
		h.stop()
		jobs.Wait()
		if got != tt.want {
			t.Errorf("%+v: held: %t", tt, got)
		}
	}
}

// A held answer is posted by the timer.
func TestHeldAnswerIsPostedByTimer(t *testing.T) {
	for _, flags := range []uint8{0, wire.FlagInterrupt} {
		c, _ := newFuzzConn(t)
		c.send.wakeups.pending.Store(5)
		gone := make(chan struct{})
		c.setQueues(nil, &postHook{QueuePair: nullPair{}, do: func() { close(gone) }})
		o, err := c.ops.take(c)
		if err != nil {
			t.Fatal(err)
		}
		o.h.Flags, o.io = flags, true
		c.deliver(o, time.Now())
		<-gone
		c.jobs.Wait()
	}
}

// An answer that is polled for is held for its own short limit, also together with one that
// would wake the client, in either order.
//
// Source: [LWIO §Wakeup]
func TestHeldAnswersTakeShorterLimit(t *testing.T) {
	for _, flags := range [][2]uint8{{wire.FlagInterrupt, 0}, {0, wire.FlagInterrupt}} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newFuzzConn(t)
			c.setQueues(nil, nullPair{})
			c.send.wakeups.pending.Store(16)
			for _, f := range flags {
				o, err := c.ops.take(c)
				if err != nil {
					t.Fatal(err)
				}
				o.h.Flags, o.io = f, true
				c.deliver(o, time.Now())
			}
			held := func() bool {
				synctest.Wait()
				c.send.mu.Lock()
				defer c.send.mu.Unlock()
				return !c.send.outbox.empty()
			}
			if !held() {
				t.Error("nothing is held")
			}
			if time.Sleep(polledTime); held() {
				t.Errorf("flags %v: held for longer than a client polls", flags)
			}
			c.jobs.Wait()
		})
	}
}

// An answer to a client that has sent an INTERRUPT wakes it, and is not held.
//
// Source: [LWIO §Wakeup] [OP-93d]
func TestArmedInterruptIsNotHeld(t *testing.T) {
	c, _ := newFuzzConn(t)
	c.setQueues(nil, nullPair{})
	c.send.wakeups.pending.Store(5)
	armed, err := c.ops.take(c)
	if err != nil {
		t.Fatal(err)
	}
	answered, err := c.ops.take(c)
	if err != nil {
		t.Fatal(err)
	}
	c.send.wakeups.armed, answered.io = armed, true
	c.deliver(answered, time.Now())
	c.send.mu.Lock()
	defer c.send.mu.Unlock()
	if !c.send.outbox.empty() || c.send.held.n != 0 {
		t.Error("the answer to an INTERRUPT is held")
	}
}
