//go:build linux

package shm

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"lwio/rdma/shm/internal/ring"
)

// later is a time limit that no machine exceeds.
const later = int64(time.Hour)

// An answer is expected after a run of prompt answers. A late answer, a missing answer,
// or a peer that was woken in vain ends the run.
func TestPromptRunIsExpected(t *testing.T) {
	p := &wakePrediction{began: time.Now()}
	for name, bad := range map[string]func(){
		"late":          func() { p.woken.Store(-later); p.answered(1) },
		"missing":       func() { p.woken.Store(later); p.slept() },
		"woken in vain": func() { p.woken.Store(later); p.early.Store(5); p.answered(9) },
	} {
		for range 2 * promptRun {
			p.woken.Store(later)
			p.early.Store(5)
			p.answered(5)
			p.answered(7) // without a wake-up before it
			p.slept()
		}
		if n := p.prompts.Load(); n != promptRun {
			t.Errorf("%d prompt answers in a row", n)
		}
		if bad(); p.prompts.Load() != 0 || p.woken.Load() != 0 || p.early.Load() != 0 {
			t.Errorf("%s: %d in a row, woken %d, early %d", name, p.prompts.Load(), p.woken.Load(), p.early.Load())
		}
	}
}

// If an answer is expected, a peer that sleeps on its doorbell is woken with the message
// that woke this side. It is not woken again for the answer, unless it has gone to sleep
// again.
func TestPeerIsWokenEarlyForExpectedAnswer(t *testing.T) {
	const asleep, again = 4 + ring.SleepDoorbell, 8 + ring.SleepDoorbell
	for name, tt := range map[string]struct {
		times  int32
		given  bool
		sleep  uint64
		early  int
		answer int // rings, early and with the answer
	}{
		"expected":          {promptRun, true, asleep, 1, 1},
		"not expected":      {promptRun - 1, true, asleep, 0, 1},
		"no message":        {promptRun, false, asleep, 0, 1},
		"not asleep":        {promptRun, true, 4 + ring.Awake, 0, 0},
		"not on a doorbell": {promptRun, true, 4 + ring.SleepSocket, 0, 1},
		"sleeps another":    {promptRun, true, again, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r, victim, accepted := attack(t, nil)
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			c, rings := victim.inside(), 0
			c.sleeper.seat.Lock() // keeps the segments mapped
			defer c.sleeper.seat.Unlock()
			c.rxMu.Lock() // so that run takes no entries
			defer c.rxMu.Unlock()
			c.waker.notify = func(uintptr) { rings++ }
			c.waker.doorbell = func() { rings++ }
			c.sleeper.over = func() bool { return true } // as park sets it
			c.waker.prediction.prompts.Store(tt.times)
			r.own.Sleep.Store(tt.sleep)
			if tt.given {
				(&ring.Entry{Kind: ring.Write}).Store(r.own.Ring, 0)
				r.own.Tail.Store(ring.HeaderSize)
			}
			c.wakeEarly()
			if rings != tt.early {
				t.Errorf("%d rings before the answer", rings)
			}
			if tt.sleep == again {
				r.own.Sleep.Store(again + 4)
			}
			if woken := &c.waker.prediction.woken; woken.Load() != 0 {
				woken.Store(later)
			}
			if c.waker.wake(); rings != tt.answer {
				t.Errorf("%d rings with the answer", rings)
			}
			if early := tt.early > 0; early && (c.waker.prediction.prompts.Load() == 0) != (tt.sleep == again) {
				t.Errorf("%d prompt answers in a row", c.waker.prediction.prompts.Load())
			}
		})
	}
}

// A message wakes its waiter in every order of sleeping, polling and waking, and whether
// answers are predicted correctly or not. A lost wake-up hangs the test.
//
// Source: [ND CompletionQueue.Notify], design decision 11
func TestNoWakeIsLost(t *testing.T) {
	turns := 60_000
	if raceEnabled || testing.Short() {
		turns = 6000
	}
	for name, way := range sleepWays {
		t.Run(name, func(t *testing.T) {
			active, passive := connected(t, way.cfg, 4096)
			ping, pong := newPlayer(active, true), newPlayer(passive, true)
			for _, p := range []*player{ping, pong} {
				if _, err := p.s.qp.PostReceive(p.recv[:]); err != nil {
					t.Fatal(err)
				}
			}
			play := func(p *player, first bool, seed uint64) error {
				rnd := rand.New(rand.NewPCG(seed, 1))
				for i := range turns {
					if i > 0 || !first {
						if err := p.take(t); err != nil {
							return err
						}
					}
					loiter(rnd)
					p.s.inside().waker.prediction.prompts.Store(rnd.Int32N(2) * promptRun)
					if err := p.send(); err != nil {
						return err
					}
					loiter(rnd)
				}
				return nil
			}
			done := make(chan error, 1)
			go func() { done <- play(pong, false, 1) }()
			if err := play(ping, true, 2); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// loiter sometimes lets other goroutines run for some time.
func loiter(rnd *rand.Rand) {
	switch rnd.IntN(4) {
	case 0:
		runtime.Gosched()
	case 1:
		for range rnd.IntN(2000) {
			_ = rnd.Uint64()
		}
	}
}
