package rdmaconn

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/poller"
	"lwio/rdma"

	"pgregory.net/rapid"
)

// simulate lets n requests be waited for, where the delay of each way is fixed, and
// returns how many were polled for.
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
		t.Errorf("polled for %d of %d where that is faster", got, n)
	}
	if got := simulate(&p, n, 45_000, 12_000); got > n/5 {
		t.Errorf("polled for %d of %d where it has become slower", got, n)
	}
	if got := simulate(&p, n, 45_000, 12_000); got > n/20 || got == 0 {
		t.Errorf("polled for %d of %d where it is slower", got, n)
	}
	if got := simulate(&p, n, 1_000_000, 2_000_000); got > n/10 {
		t.Errorf("polled for %d of %d that take longer than the patience", got, n)
	}
	if got := simulate(&p, 2*n, 2_000, 30_000); got < n {
		t.Errorf("polled for %d of %d where it has become faster", got, 2*n)
	}
}

// Delays of two kinds, as with client and server on one processor, do not make the better
// way change all the time.
func TestPaceOfTwoKinds(t *testing.T) {
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
		t.Errorf("polled for %d of %d where it is slower", count, n)
	}
}

// A trial of polling ends with the first answer that shows it to be hopeless.
func TestPaceHopeless(t *testing.T) {
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
		t.Errorf("polled for %d of %d where the answers come after 20 ms", probes, n)
	}
}

// With any delays, both ways are tried again and again.
func TestPaceNeverGivesUp(t *testing.T) {
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

// A call that is alone looks for its answer by itself; where there is one processor, which
// the server may be in need of, only by choice, or if answers have come promptly.
//
// Source: [LWIO §I/O Processing]
func TestBusyPollConditions(t *testing.T) {
	const choice = -1
	for _, tt := range []struct {
		name   string
		caps   rdma.Caps
		single bool
		mean   int64 // of the answers polled for, 0 if there was none, or choice
		sent   int64
		want   bool
	}{
		{"by choice", rdma.CapDirectAlloc, false, choice, 1, true},
		{"by choice, one processor", rdma.CapDirectAlloc, true, choice, 1, true},
		{"slow", rdma.CapDirectAlloc, false, promptDelay, 1, true},
		{"slow, one processor", rdma.CapDirectAlloc, true, promptDelay, 1, false},
		{"prompt, one processor", rdma.CapDirectAlloc, true, promptDelay - 1, 1, true},
		{"nothing known, one processor", rdma.CapDirectAlloc, true, 0, 1, false},
		{"not alone", rdma.CapDirectAlloc, false, choice, 2, false},
		{"the peer writes nothing by itself", 0, false, choice, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &Conn{Counts: new(base.Counts), Born: time.Now()}
			c.Table.Entries, c.Status.Polled = make([]Request, 1), NewRequestSet(1)
			c.Info.Caps = tt.caps
			c.Progress.single.Store(tt.single)
			c.Queue.sent.Store(tt.sent)
			s := &c.Table.Entries[0]
			s.Block, s.Kind, s.Want = new(atomic.Uint64), KindRead, 1
			if tt.mean != choice {
				s.pace = new(pace)
				s.pace.polled.Store(tt.mean)
			}
			s.Waiter = poller.NewWaiter()
			s.Start(RequestPending, true)
			c.Status.Polled.Add(0)
			s.Block.Store(1) // a byte was read
			if ios, got := c.BusyPoll(s, &Ticket{pace: s.pace, polled: true}, 0); got != tt.want || got && ios.Information != 1 {
				t.Errorf("has its answer: %t, %+v", got, ios)
			}
			if settling := s.State() == RequestSettling; settling != tt.want {
				t.Errorf("is the call's: %t", settling)
			}
		})
	}
}

func TestSlotSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 200
		set, want := NewRequestSet(n), map[int]bool{}
		for _, i := range rapid.SliceOf(rapid.IntRange(-n+1, n-1)).Draw(t, "changes") {
			if i >= 0 {
				set.Add(i)
				want[i] = true
			} else {
				set.Remove(-i)
				delete(want, -i)
			}
		}
		count := 0
		set.each(func(i int) {
			if count++; !want[i] {
				t.Fatalf("%d is not a member", i)
			}
		})
		if count != len(want) || set.Empty() != (len(want) == 0) {
			t.Fatalf("%d members, want %d", count, len(want))
		}
	})
}

// A call that looks for its answer leaves that of a later request of the same entry, which is
// another call's, alone.
func TestBusyPollLeavesLaterGenerationAlone(t *testing.T) {
	c := &Conn{Counts: new(base.Counts), Born: time.Now()}
	c.Table.Entries, c.Status.Polled = make([]Request, 1), NewRequestSet(1)
	c.Info.Caps = rdma.CapDirectAlloc
	c.Queue.sent.Store(1)
	s := &c.Table.Entries[0]
	s.Block, s.Kind, s.Want = new(atomic.Uint64), KindRead, 1
	s.renew()
	s.Start(RequestPending, true)
	s.Block.Store(1)
	if _, got := c.BusyPoll(s, &Ticket{polled: true}, 0); got || s.State() != RequestPending {
		t.Error("a call took the answer of another")
	}
	if _, got := c.BusyPoll(s, &Ticket{polled: true}, 1); !got {
		t.Error("a call did not find its answer")
	}
}
