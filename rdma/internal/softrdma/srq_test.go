package softrdma

import (
	"math/rand/v2"
	"testing"

	"lwio/rdma"
)

// sharer is a queue pair on a shared queue.
type sharer struct {
	*fakePair
	ReceiveQueue
	queues  Queues
	resumed int
	ids     []uint64 // of the taken receives
}

// sharing makes a shared queue of receives of 8 bytes in a region, and queue pairs that
// use it.
func sharing(t testing.TB, pairs, depth int) (*SharedQueue, *Region, []*sharer) {
	d := newDomain(t)
	q, err := d.CreateSharedReceiveQueue(rdma.SharedReceiveQueueConfig{Depth: depth, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCompletionQueue(1000)
	if err != nil {
		t.Fatal(err)
	}
	var list []*sharer
	for i := range pairs {
		s := &sharer{fakePair: &fakePair{}}
		cfg := rdma.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, SharedReceive: q, Context: uint64(i)}
		if s.queues, err = d.CheckPair(&cfg, "create"); err != nil {
			t.Fatal(err)
		}
		s.Init(d, &cfg, s.queues, func() { s.resumed++ })
		if !s.queues.Attach(s) {
			t.Fatal("not attached")
		}
		list = append(list, s)
	}
	return q.(*SharedQueue), d.register(t, 8*depth, rdma.AccessLocalWrite), list
}

// take takes a receive, if there is one, and delivers a message in it.
func (s *sharer) take(t testing.TB) bool {
	t.Helper()
	s.Lock()
	defer s.Unlock()
	r, status := s.BeginLocked()
	if status == rdma.StatusPending {
		return false
	}
	if status != rdma.StatusSuccess || len(r.Pieces) != 1 || r.Length != 8 {
		t.Fatalf("%v %+v", status, r)
	}
	s.ids = append(s.ids, r.ID)
	s.FinishLocked(&rdma.Result{Bytes: 8})
	return true
}

func post(t testing.TB, q *SharedQueue, m *Region, ids ...uint64) {
	t.Helper()
	for _, id := range ids {
		req := []rdma.ReceiveRequest{{ID: id, SGL: []rdma.SGE{{Region: m, Offset: 8 * int(id), Length: 8}}}}
		if n, err := q.PostReceive(req); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
}

// upTo returns the numbers below n.
func upTo(n int) (ids []uint64) {
	for i := range n {
		ids = append(ids, uint64(i))
	}
	return ids
}

// With several queue pairs, a connection takes at most three quarters of all receives,
// including taken receives that the program has not posted again. A single connection
// takes all receives.
//
// Source: [RFC 5042 §6.4.3.1]
func TestSharedQueueLimitsEachConnection(t *testing.T) {
	for depth, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 8: 6, 100: 75} {
		q, m, s := sharing(t, 2, depth)
		post(t, q, m, upTo(depth)...)
		for s[0].take(t) {
		}
		if len(s[0].ids) != want {
			t.Errorf("of %d receives the first connection took %d", depth, len(s[0].ids))
		}
		for s[1].take(t) {
		}
		if got := len(s[1].ids); got != min(depth-want, max(1, depth*3/4)) {
			t.Errorf("of %d receives the second connection took %d", depth, got)
		}
		// The other queue pairs are closed: no receives are kept for them.
		s[1].End(rdma.StatusCanceled)
		s[1].queues.Detach(s[1])
		post(t, q, m, s[0].ids...)
		for s[0].take(t) {
		}
		if len(s[0].ids) != 2*want {
			t.Errorf("of %d receives a single connection took %d", want, len(s[0].ids)-want)
		}
	}
}

// The limit holds against a peer that sends without end, and a program that posts only
// the receives of other connections again.
//
// Source: [RFC 5042 §6.4.3.1]
func TestSharedQueueLimitHoldsAgainstEndlessSender(t *testing.T) {
	q, m, s := sharing(t, 2, 16)
	post(t, q, m, upTo(16)...)
	for range 200 {
		for s[0].take(t) {
		}
		if !s[1].take(t) {
			t.Fatalf("the connection with the endless sender holds %d of 16", len(s[0].ids))
		}
		post(t, q, m, s[1].ids...)
		s[1].ids = nil
	}
	if len(s[0].ids) != 12 {
		t.Error(len(s[0].ids))
	}
	if len(q.buffers) != 16 || q.taken.n != 12 {
		t.Error("memory:", len(q.buffers), q.taken.n)
	}
}

// A receive with new memory, or without memory, counts as the return of the receive that
// was taken first.
func TestSharedQueueCountsNewMemoryAsTaken(t *testing.T) {
	q, m, s := sharing(t, 2, 64)
	empty := []rdma.ReceiveRequest{{}}
	for i := range 64 {
		if n, err := q.PostReceive(empty); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		s[i%2].Lock()
		if _, status := s[i%2].BeginLocked(); status != rdma.StatusSuccess {
			t.Fatal(i, status)
		}
		s[i%2].FinishLocked(&rdma.Result{})
		s[i%2].Unlock()
		post(t, q, m, uint64(i))
		if !s[0].take(t) {
			t.Fatal("delayed at", i)
		}
	}
	if len(q.buffers) > 2 || q.taken.n > 2 {
		t.Error("memory:", len(q.buffers), q.taken.n)
	}
}

// The connection that has waited longest comes first. A connection that leaves loses its
// place.
//
// Source: [ND §6.5]
func TestSharedQueueServesWaitersInOrder(t *testing.T) {
	q, m, s := sharing(t, 4, 64)
	for _, x := range s[:3] {
		if x.take(t) {
			t.Fatal("a receive was taken from an empty queue")
		}
	}
	post(t, q, m, 0, 1)
	if s[0].resumed == 0 || s[1].resumed == 0 {
		t.Error("not resumed")
	}
	if s[3].take(t) || s[2].take(t) {
		t.Error("taken out of turn")
	}
	if !s[1].take(t) || !s[0].take(t) {
		t.Error("not taken in turn")
	}
	before := s[3].resumed
	s[2].End(rdma.StatusCanceled)
	if s[3].resumed == before {
		t.Error("not resumed when the connection before it left")
	}
	post(t, q, m, 2)
	if !s[3].take(t) {
		t.Error("delayed by a connection that left")
	}
	q.Close()
	s[0].Lock()
	defer s[0].Unlock()
	if _, status := s[0].BeginLocked(); status != rdma.StatusInvalidHandle {
		t.Error(status)
	}
}

// A connection that may take a receive is never refused for ever. The counts are right,
// and each receive is taken once.
func TestSharedQueueServesAllConnections(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	q, m, s := sharing(t, 3, 32)
	free, away := upTo(32), []uint64{}
	take := func(x *sharer) bool {
		ok := x.take(t)
		away = append(away, x.ids...)
		x.ids = nil
		x.Push()
		_, _ = x.cq.Poll(make([]rdma.Result, 4))
		return ok
	}
	for range 20000 {
		switch rng.IntN(3) {
		case 0:
			if len(free) > 0 {
				i := rng.IntN(len(free))
				post(t, q, m, free[i])
				free = append(free[:i], free[i+1:]...)
			}
		case 1:
			take(s[rng.IntN(3)])
		case 2:
			if len(away) > 0 {
				i := rng.IntN(len(away))
				free = append(free, away[i])
				away = append(away[:i], away[i+1:]...)
			}
		}
		held := 0
		for _, x := range s {
			held += x.taker.held
		}
		if held != q.taken.n || q.receives.Len()+len(free)+len(away) != 32 || q.taken.n > len(free)+len(away) {
			t.Fatalf("%d held, %d taken, %d posted, %d free, %d away", held, q.taken.n, q.receives.Len(), len(free), len(away))
		}
		if q.receives.Len() > len(s) && !take(s[0]) && !take(s[1]) && !take(s[2]) {
			t.Fatal("no connection may take a receive")
		}
	}
}

// Posting the same memory again does not allocate.
func TestSharedQueueDoesNotAllocateForKnownMemory(t *testing.T) {
	q, m, s := sharing(t, 2, 16)
	post(t, q, m, upTo(16)...)
	var res [4]rdma.Result
	req := []rdma.ReceiveRequest{{SGL: []rdma.SGE{{Region: m, Length: 8}}}}
	cycle := func() {
		s[0].Lock()
		r, status := s[0].BeginLocked()
		if status != rdma.StatusSuccess {
			t.Fatal(status)
		}
		req[0].ID, req[0].SGL[0].Offset = r.ID, 8*int(r.ID)
		s[0].FinishLocked(&rdma.Result{})
		s[0].Unlock()
		s[0].Push()
		_, _ = s[0].cq.Poll(res[:])
		if _, err := q.PostReceive(req); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		cycle()
	}
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Error(n, "allocations")
	}
}
