//go:build linux

package shm

import (
	"testing"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// A message's result does not wait for the end of the following stream of writes. It
// appears when a quarter of the ring is free again. Source: [ND §6.5]
func TestResultDoesNotWaitForStreamOfWrites(t *testing.T) {
	r, victim, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	c := victim.inside()
	r.own.Waiting.Store(1)
	r.own.Sleep.Store(ring.SleepMask + 1 + ring.SleepSocket)
	send, early := c.waker.notify, -1
	c.waker.notify = func(fd uintptr) {
		if send(fd); early < 0 { // the drain is at the first quarter of the ring
			var res [4]rdma.Result
			n, err := victim.rcq.Poll(res[:])
			if early = n; err != nil || r.peer.Head.Load() == r.own.Tail.Load() {
				t.Errorf("poll: %v, or all of the ring was taken", err)
			}
		}
	}
	pos := 0
	for ; pos < len(r.own.Ring)/2; pos += ring.HeaderSize {
		e := ring.Entry{Kind: ring.Write}
		if pos == 0 {
			e = ring.Entry{Kind: ring.Send, Flags: ring.FlagFirst}
		}
		e.Store(r.own.Ring, pos)
	}
	c.rxMu.Lock() // so that they are not taken one by one
	r.own.Tail.Store(uint64(pos))
	err := c.drainLocked(-1)
	c.rxMu.Unlock()
	if err != nil || early != 1 {
		t.Errorf("drain: %v; results a quarter of the ring later: %d", err, early)
	}
}
