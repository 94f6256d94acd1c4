//go:build linux

package shm

import (
	"runtime"
	"sync"
	"testing"

	"lwio/rdma"
)

// A goroutine with a budget sends no more requests than the budget. The rest is sent
// anyway.
func TestSendBudgetIsKept(t *testing.T) {
	active, passive := connected(t, nil, 4096)
	const posts = 3 * sendBudget
	for id := range uint64(posts) {
		if _, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{ID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	qp, c := active.qp.(*queuePair), active.inside()
	eventually(t, "run sleeps", c.sleeper.isParked) // otherwise run sends the rest too
	qp.Initiator.Lock()
	qp.Initiator.Sending = true // another goroutine has the right to send
	qp.Initiator.Unlock()
	for id := range uint64(posts) {
		active.post(t, rdma.Request{Op: rdma.OpSend, ID: id})
	}
	qp.Initiator.Lock()
	before := qp.Initiator.Next
	qp.Initiator.Unlock()
	c.rxMu.Lock() // run stands still
	c.tx.pump(false, sendBudget)
	qp.Initiator.Lock()
	done, free := qp.Initiator.Next-before, !qp.Initiator.Sending
	qp.Initiator.Unlock()
	c.rxMu.Unlock()
	if done != sendBudget || !free {
		t.Errorf("%d requests with a budget of %d; the right to send is free: %v", done, sendBudget, free)
	}
	for id := range uint64(posts) {
		if r := next(t, active.icq); r.ID != id || r.Status != rdma.StatusSuccess {
			t.Fatalf("%+v, want %d", r, id)
		}
		if r := next(t, passive.rcq); r.ID != id || r.Status != rdma.StatusSuccess {
			t.Fatalf("%+v, want %d", r, id)
		}
	}
}

// Requests beyond the budget are sent even if another goroutine looks for them at that
// moment. run is woken only after the right to send is released: before that it could not
// take the right, and would not return.
//
// Source: [ND QueuePair.Send]
func TestRequestsBeyondBudgetAreSent(t *testing.T) {
	s, _ := connected(t, nil, 4096)
	c := s.inside()
	c.qp.Initiator.Lock()
	c.qp.Initiator.Sending = true // another goroutine has the right to send
	c.qp.Initiator.Unlock()
	s.post(t, rdma.Request{Op: rdma.OpWrite, ID: 7})
	var yielding sync.WaitGroup
	c.qp.Initiator.Lock()
	yielding.Go(c.tx.yield)
	early := false
	for range 10_000 { // turns in which run comes as far as it can without the lock
		runtime.Gosched()
		early = early || c.tx.more.Load()
	}
	c.qp.Initiator.Unlock()
	yielding.Wait()
	if early {
		t.Error("run is woken before the right to send is released")
	}
	if r := next(t, s.icq); r.ID != 7 || r.Status != rdma.StatusSuccess {
		t.Fatalf("%+v", r)
	}
}
