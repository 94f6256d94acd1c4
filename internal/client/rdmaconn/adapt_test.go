package rdmaconn

import (
	"math/rand/v2"
	"testing"

	"lwio/internal/client/base"
	"lwio/rdma"

	"pgregory.net/rapid"
)

// simulate lets n requests be waited for, where the delay of each way is fixed, and
// returns how many were polled.
func simulate(p *pace, n int, polled, slept int64) int {
	count := 0
	for range n {
		if way := p.polls(); way {
			count++
			p.took(way, polled)
		} else {
			p.took(way, slept)
		}
	}
	return count
}

// The better way is found, is kept to but for probes, and is changed when the other
// becomes better.
//
// Source: [LWIO §Wakeup]
func TestPaceFindsBetterWay(t *testing.T) {
	const n = 4000
	var p pace
	if got := simulate(&p, n, 2_000, 30_000); got < n*90/100 || got == n {
		t.Errorf("polled %d of %d where that is faster", got, n)
	}
	if got := simulate(&p, n, 45_000, 12_000); got > n/5 {
		t.Errorf("polled %d of %d where it has become slower", got, n)
	}
	if got := simulate(&p, n, 45_000, 12_000); got > n/20 || got == 0 {
		t.Errorf("polled %d of %d where it is slower", got, n)
	}
	if got := simulate(&p, n, 1_000_000, 2_000_000); got > n/10 {
		t.Errorf("polled %d of %d that take longer than the patience", got, n)
	}
	if got := simulate(&p, 2*n, 2_000, 30_000); got < n {
		t.Errorf("polled %d of %d where it has become faster", got, 2*n)
	}
}

// Delays of two kinds, as with client and server on one processor, do not make the better
// way change all the time.
func TestPaceKeepsBetterWayWithTwoKindsOfDelay(t *testing.T) {
	const n = 20_000
	var p pace
	r := rand.New(rand.NewPCG(1, 2))
	count := 0
	for range n {
		way, slow := p.polls(), int64(25_000)
		if way {
			count++
			slow = 45_000
		}
		if r.IntN(3) > 0 {
			slow = 6_500
		}
		p.took(way, slow)
	}
	if count > n/6 {
		t.Errorf("polled %d of %d where it is slower", count, n)
	}
}

// A trial of polling ends with the first answer that takes the longest delay that counts.
func TestPaceEndsTrialAtMaxDelay(t *testing.T) {
	const n = 1000
	var p pace
	probes := 0
	for range n {
		way := p.polls()
		p.took(way, 20_000_000)
		if way {
			probes++
		}
	}
	// One at first, and one each time that twice as many requests have been slept for.
	if probes == 0 || probes > 12 {
		t.Errorf("polled %d of %d where the answers come after 20 ms", probes, n)
	}
}

// With any delays, both ways are tried again and again.
func TestPaceTriesBothWaysAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		delays := rapid.SliceOfN(rapid.Int64Range(-1, 1<<40), 1, 300).Draw(t, "delays")
		for _, d := range delays {
			p.took(p.polls(), d)
		}
		seen := [2]bool{}
		for range 2*lastProbe + 2*trial {
			way := p.polls()
			p.took(way, delays[0])
			if way {
				seen[0] = true
			} else {
				seen[1] = true
			}
		}
		if !seen[0] || !seen[1] {
			t.Fatalf("one way is never tried: %v", seen)
		}
	})
}

// A single call busy-polls for its own answer. With one processor, which the server may need, it
// does so only in mode Polling, or if recent answers were fast.
//
// Source: [LWIO §I/O Processing]
func TestBusyPollConditions(t *testing.T) {
	const choice = -1
	for _, tt := range []struct {
		name   string
		caps   rdma.Caps
		single bool
		mean   int64 // of the answers that were polled, 0 if there was none, or choice
		others int64 // requests in flight
		want   bool
	}{
		{"polling mode", rdma.CapDirectAlloc, false, choice, 0, true},
		{"polling mode, one processor", rdma.CapDirectAlloc, true, choice, 0, true},
		{"slow", rdma.CapDirectAlloc, false, promptDelay, 0, true},
		{"slow, one processor", rdma.CapDirectAlloc, true, promptDelay, 0, false},
		{"prompt, one processor", rdma.CapDirectAlloc, true, promptDelay - 1, 0, true},
		{"nothing known, one processor", rdma.CapDirectAlloc, true, 0, 0, false},
		{"another in flight", rdma.CapDirectAlloc, false, choice, 1, false},
		{"the peer writes nothing by itself", 0, false, choice, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newFake(3, base.Polling, tt.caps)
			c.progress.single.Store(tt.single)
			o := postRead(t, c, 1)
			c.count.sent.Add(tt.others)
			if tt.mean != choice {
				o.pace = new(pace)
				o.pace.polled.Store(tt.mean)
			}
			s := o.request
			s.block.Store(1) // a byte was read
			if got := c.BusyPoll(&o.Ticket); got != tt.want || got && (o.answers != 1 || o.ios.Information != 1) {
				t.Errorf("has its answer: %t, %+v", got, o.ios)
			}
			if o.InFlight() == tt.want {
				t.Errorf("is in flight: %t", o.InFlight())
			}
		})
	}
}

// A call that busy-polls leaves the answer to a later request of the same entry, which belongs to
// another call, alone.
func TestBusyPollLeavesLaterGenerationAlone(t *testing.T) {
	c, _ := newFake(2, base.Polling, rdma.CapDirectAlloc)
	o := postRead(t, c, 1)
	o.request.block.Store(1)
	o.generation--
	if c.BusyPoll(&o.Ticket) || o.request.load().state() != requestPending {
		t.Error("a call took the answer of another")
	}
	o.generation++
	if !c.BusyPoll(&o.Ticket) {
		t.Error("a call did not find its answer")
	}
}
