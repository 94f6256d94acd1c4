package server

import (
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/rate"
	"lwio/vfs"
)

// A user who moves too much waits, holds up no other, nor the end of his own connection,
// and has no processor spin for him meanwhile.
func TestRateOfBytes(t *testing.T) { onEach(t, testRateOfBytes) }

func testRateOfBytes(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{SpinTime: time.Hour}})
	v.file("a", content(10))
	greedy := newFakeSession(7)
	greedy.pace = rate.NewPace(0, 1000, 10)
	n := v.negotiate(greedy)
	c := v.connect(n)
	c.auth(n, authOptions{})
	fid := c.register(v.open("a", vfs.ReadData, 0, greedy))
	c.want(ntstatus.Success, 10, c.readHeader(fid, 0, 10, 0), nil)
	eventually(t, "the loop spins", func() bool { return v.e.spinners.now.Load() == 1 })
	greedy.pace.Take(0, 1<<40)
	c.send(c.readHeader(fid, 0, 10, 0), nil)
	eventually(t, "it does not while it waits", func() bool { return v.e.spinners.now.Load() == 0 })
	if n := v.e.count.slowed.Load(); n != 1 {
		t.Errorf("%d requests waited", n)
	}
	v.check(v.client())
	greedy.end()
	c.wantCut() // and there was no answer before
}

// A user has no more connections than the limit says, whatever keys they show; what ends
// makes room.
//
// Source: [OP-42b]
func TestConnectionsOfAUser(t *testing.T) { onEach(t, testConnectionsOfAUser) }

func testConnectionsOfAUser(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{ConnectionsPerUser: 2}})
	first, second := v.client(), v.client()
	for range 20 {
		n := v.negotiate(newFakeSession(9))
		c := v.connect(n)
		msg, _ := c.authMessage(n, authOptions{})
		c.wantRefused(msg, ntstatus.InsufficientResources)
	}
	if crowded, failures := v.e.count.crowded.Load(), v.e.count.authFailures.Load(); crowded != 20 || failures != 0 {
		t.Errorf("%d refused, %d failures", crowded, failures)
	}
	v.check(first)
	v.check(second)
	first.connector.Close()
	eventually(t, "there is room again", func() bool {
		v.e.mu.Lock()
		defer v.e.mu.Unlock()
		return v.e.users["alice"] == 1
	})
	v.check(v.client())
}
