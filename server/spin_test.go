package server

import (
	"testing"
	"time"

	"lwio/internal/ntstatus"

	"pgregory.net/rapid"
)

// Each fruitless busy-poll doubles the number of sleeps before the next one, and a fruitful
// one ends that.
func TestSpinBackoffDoubles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b spinBackoff
		asleep, bound := 0, 0
		for range rapid.IntRange(1, 300).Draw(t, "sleeps") {
			if !b.next() {
				if asleep++; asleep > bound {
					t.Fatalf("%d sleeps without a try", asleep)
				}
				continue
			}
			if asleep != bound {
				t.Fatalf("a try after %d sleeps, want %d", asleep, bound)
			}
			paid := rapid.Bool().Draw(t, "paid")
			b.record(paid)
			asleep, bound = 0, min(max(2*bound, 2), maxSkip)
			if paid {
				bound = 0
			}
		}
	})
}

// The number of busy-polling loops is bounded, and 0 where busy-polling is off.
func TestSpinnersAreBounded(t *testing.T) {
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

// A loop finds the processors oversubscribed if, since its last wake-up, more other loops woke up than
// the bound. A single loop never does.
func TestOversubscriptionByOthersWakeUps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &oversubscription{most: rapid.Uint64Range(1, 8).Draw(t, "most")}
		var last, other uint64
		for _, others := range rapid.SliceOf(rapid.Uint64Range(0, 20)).Draw(t, "wake-ups of others") {
			for range others {
				other, _ = w.wake(other)
			}
			var over bool
			if last, over = w.wake(last); over != (others > w.most) {
				t.Fatalf("oversubscribed: %t after %d wake-ups of others, with a bound of %d", over, others, w.most)
			}
		}
	})
}

// Answers are posted when they are more than half of the requests in flight, or than five eighths
// of many where the client sends the next without a system call.
//
// Source: [LWIO §Wakeup]
func TestEnoughAnswersToWakeClient(t *testing.T) {
	for _, tt := range []struct {
		shared                       bool
		begun, hinted, left, answers int
		want                         bool
	}{
		{false, 32, 0, 0, 16, false},
		{false, 32, 0, 0, 17, true},
		{false, 16, 0, 16, 17, true},
		{false, 16, 40, 0, 17, false},
		{true, 32, 0, 0, 20, false},
		{true, 32, 0, 0, 21, true},
		{true, 8, 0, 0, 4, false},
		{true, 8, 0, 0, 5, true},
		{true, 1, 0, 0, 1, true},
		{false, 1, 0, 0, 1, true},
	} {
		if got := (clientLoad{tt.begun, tt.hinted}).enough(tt.answers, 0, tt.left, tt.shared, false); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}

// While the processors are oversubscribed, answers are posted together, except with much data.
func TestEnoughWhenOversubscribed(t *testing.T) {
	load := clientLoad{begun: 4}
	for _, over := range []bool{false, true} {
		if got := load.enough(3, 0, 1, false, over); got == over {
			t.Errorf("oversubscribed %t: three of four answers are enough: %t", over, got)
		}
		if !load.enough(3, flushBytes, 1, false, over) {
			t.Errorf("oversubscribed %t: much data waits", over)
		}
	}
}

// While the processors are oversubscribed, a loop does not busy-poll.
func TestNoSpinWhenOversubscribed(t *testing.T) {
	l := receiveLoop{c: &conn{engine: &engine{spinners: newSpinners(time.Hour)}}, oversubscribed: true}
	if again, err := l.spin(nil); again || err != nil || l.backoff != (spinBackoff{}) {
		t.Errorf("the loop spun: %t, %v", again, err)
	}
}

// A loop that finds only completions of its own requests was not woken by a client: that says
// nothing about oversubscription.
func TestOwnCompletionsAreNoWakeUps(t *testing.T) {
	onEach(t, func(t *testing.T, on string) {
		v := newEnv(t, envConfig{on: on, limits: Limits{BusyPoll: -1}})
		o := v.file("f", content(100))
		v.e.oversubscription.most = 4 // with many processors there would be more clients than a session has keys for
		clients := make([]*rawClient, v.e.oversubscription.most+2)
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
		if n := v.e.oversubscription.wakes.Load(); n == 0 || n > messages {
			t.Errorf("%d wake-ups by %d messages", n, messages)
		}
	})
}
