//go:build linux

package shm

import (
	"testing"

	"lwio/rdma"
)

// TestResultInAStream: a message's result does not wait for the end of the stream of
// writes that follows it: it is there when a quarter of the ring is free again.
// Source: [ND §6.5]
func TestResultInAStream(t *testing.T) {
	r, victim, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	c := victim.inside()
	r.own.want.Store(1)
	r.own.sleep.Store(sleepHow + 1 + sleepSocket)
	send, early := c.waker.fn, -1
	c.waker.fn = func(fd uintptr) {
		if send(fd); early < 0 { // the drain is at the first quarter of the ring
			var res [4]rdma.Result
			n, err := victim.rcq.Poll(res[:])
			if early = n; err != nil || r.peer.head.Load() == r.own.tail.Load() {
				t.Errorf("poll: %v, or all of the ring was taken", err)
			}
		}
	}
	pos := 0
	for ; pos < len(r.own.ring)/2; pos += headerSize {
		e := entry{kind: entryWrite}
		if pos == 0 {
			e = entry{kind: entrySend, flags: entryFirst}
		}
		e.store(r.own.ring, pos)
	}
	c.rxMu.Lock() // so that nobody takes them one by one
	r.own.tail.Store(uint64(pos))
	err := c.drainLocked(-1)
	c.rxMu.Unlock()
	if err != nil || early != 1 {
		t.Errorf("drain: %v; results a quarter of the ring later: %d", err, early)
	}
}
