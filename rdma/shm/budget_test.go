//go:build linux

package shm

import (
	"testing"

	"lwio/rdma"
)

// TestSendBudget: who has a budget does no more than that for others, and what is left
// is done all the same.
func TestSendBudget(t *testing.T) {
	active, passive := connected(t, nil, 4096)
	const posts = 3 * sendBudget
	for id := range uint64(posts) {
		if _, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{ID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	qp, c := active.qp.(*queuePair), active.inside()
	qp.mu.Lock()
	qp.writing = true // somebody else has the baton
	qp.mu.Unlock()
	for id := range uint64(posts) {
		active.post(t, rdma.Request{Op: rdma.OpSend, ID: id})
	}
	qp.mu.Lock()
	before := qp.next
	qp.mu.Unlock()
	c.rxMu.Lock() // run stands still
	c.tx.pump(false, sendBudget)
	qp.mu.Lock()
	done, free := qp.next-before, !qp.writing
	qp.mu.Unlock()
	c.rxMu.Unlock()
	if done != sendBudget || !free {
		t.Errorf("%d requests with a budget of %d; the baton is free: %v", done, sendBudget, free)
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
