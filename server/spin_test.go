package server

import (
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/rdma"

	"pgregory.net/rapid"
)

// A loop that spins in vain does so ever more seldom, and at once again when it paid.
func TestHope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h hope
		asleep, bound := 0, 0
		for range rapid.IntRange(1, 300).Draw(t, "sleeps") {
			if !h.tries() {
				if asleep++; asleep > bound {
					t.Fatalf("%d sleeps without a try", asleep)
				}
				continue
			}
			if asleep != bound {
				t.Fatalf("a try after %d sleeps, want %d", asleep, bound)
			}
			paid := rapid.Bool().Draw(t, "paid")
			h.learn(paid)
			asleep, bound = 0, min(max(2*bound, 2), maxSkip)
			if paid {
				bound = 0
			}
		}
	})
}

// No more loops spin than may, and none where that is switched off.
func TestSpinners(t *testing.T) {
	if newSpinners(-1).enter() {
		t.Error("a loop spins though it must not")
	}
	s := newSpinners(time.Microsecond)
	for range s.most {
		if !s.enter() {
			t.Fatal("no place")
		}
	}
	if s.enter() {
		t.Error("one place too many")
	}
	s.leave()
	if !s.enter() {
		t.Error("no place though one came free")
	}
}

// A loop is in a crowd when more others woke up since it did last than there are
// processors for, and alone it never is.
func TestCrowd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &crowd{most: rapid.Uint64Range(1, 8).Draw(t, "most")}
		var last, other uint64
		for _, others := range rapid.SliceOf(rapid.Uint64Range(0, 20)).Draw(t, "wake-ups of others") {
			for range others {
				other, _ = w.wake(other)
			}
			var crowded bool
			if last, crowded = w.wake(last); crowded != (others > w.most) {
				t.Fatalf("crowded is %t after %d wake-ups of others, of which %d are none", crowded, others, w.most)
			}
		}
	})
}

// A client that sleeps gets its answers when they are more than half of what is in flight,
// or than five eighths of many where it sends the next without a system call.
//
// Source: [LWIO §Wakeup]
func TestEnough(t *testing.T) {
	direct := &fabric{info: rdma.AdapterInfo{Caps: rdma.CapDirectAlloc}}
	for _, tt := range []struct {
		f                        *fabric
		begun, told, left, ready int
		want                     bool
	}{
		{new(fabric), 32, 0, 0, 16, false},
		{new(fabric), 32, 0, 0, 17, true},
		{new(fabric), 16, 0, 16, 17, true},
		{new(fabric), 16, 40, 0, 17, false},
		{direct, 32, 0, 0, 20, false},
		{direct, 32, 0, 0, 21, true},
		{direct, 8, 0, 0, 4, false},
		{direct, 8, 0, 0, 5, true},
		{direct, 1, 0, 0, 1, true},
		{new(fabric), 1, 0, 0, 1, true},
	} {
		c := &conn{f: tt.f, begun: tt.begun, told: tt.told, readyNum: tt.ready}
		if got := c.enough(tt.left); got != tt.want {
			t.Errorf("%d answers of %d begun, %d left, %d told, direct %t: %t", tt.ready, tt.begun, tt.left, tt.told, tt.f == direct, got)
		}
	}
}

// In a crowd a loop does not spin, and a client gets its answers together.
func TestCrowdedLoop(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		c := &conn{e: &engine{spinners: newSpinners(-1)}, f: new(fabric), begun: 4, readyNum: 3, crowded: crowded}
		if c.enough(1) == crowded {
			t.Errorf("crowded %t: three of four answers are enough: %t", crowded, !crowded)
		}
		if c.readySum = flushBytes; !c.enough(1) {
			t.Errorf("crowded %t: much data waits", crowded)
		}
	}
	c := &conn{e: &engine{spinners: newSpinners(time.Hour)}, crowded: true}
	if again, err := c.spin(nil); again || err != nil || c.hope != (hope{}) {
		t.Errorf("spun in a crowd: %t, %v", again, err)
	}
}

// A loop that finds no more than that its own requests are done was not woken by a client:
// it is in a crowd as much as before.
func TestWakeUps(t *testing.T) {
	onEach(t, func(t *testing.T, on string) {
		v := newEnv(t, envConfig{on: on, limits: Limits{SpinTime: -1}})
		o := v.file("f", content(100))
		v.e.crowd.most = 4 // with many processors there would be more clients than a session has keys for
		clients := make([]*rawClient, v.e.crowd.most+2)
		fids := make([]uint16, len(clients))
		messages := uint64(0)
		for i := range clients {
			clients[i] = v.client()
			fids[i] = clients[i].register(o)
			messages += 2 // with AUTH
		}
		for range 5 {
			for i, c := range clients {
				c.want(ntstatus.Success, 100, c.readHeader(fids[i], 0, 100, 0), nil)
				messages++
			}
		}
		if n := v.e.crowd.wakes.Load(); n == 0 || n > messages {
			t.Errorf("%d wake-ups by %d messages", n, messages)
		}
	})
}
