//go:build linux

package shm

import (
	"testing"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// A connection may end while Post wakes the peer for a message that needs no result. The
// segments stay mapped until Post no longer uses them. Source: design decision 11
func TestEndWaitsForPostThatWakesPeer(t *testing.T) {
	for name, reqs := range map[string][]rdma.Request{
		"silent": {{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess}},
		"loud":   {{Op: rdma.OpSend}},
	} {
		t.Run(name, func(t *testing.T) {
			r, victim, accepted := attack(t, nil)
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			r.own.Sleep.Store(ring.SleepMask + 1 + ring.SleepSocket)
			c, pair := victim.inside(), victim.qp.(*queuePair)
			send, woken := c.waker.notify, 0
			c.waker.notify = func(fd uintptr) {
				send(fd)
				woken++
				r.nc.Close()
				<-victim.conn.Done() // the end has begun
				pair.Initiator.Lock()
				defer pair.Initiator.Unlock()
				if !pair.Initiator.Sending {
					t.Error("nothing keeps the segments mapped while the peer is woken")
				}
			}
			if _, err := victim.qp.Post(reqs); err != nil || woken != 1 {
				t.Errorf("post: %v, the peer was woken %d times", err, woken)
			}
			<-c.finished
		})
	}
}
