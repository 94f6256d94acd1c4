package iwarp

import (
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLeave: the reader comes back after a short while where processors are idle, also
// after they were busy, and in the end wherever they are.
func TestLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p progress
		p.init()
		longer := 0
		for _, late := range rapid.SliceOf(rapid.Int64Range(0, int64(4*leave))).Draw(t, "late") {
			before := time.Duration(p.leave.Load())
			stays := p.ran(time.Duration(late))
			after := time.Duration(p.leave.Load())
			switch {
			case stays && (late < int64(busyDelay) || after != 2*before || after > longestLeave):
				t.Fatalf("%v late: stays away for %v after %v", time.Duration(late), after, before)
			case !stays && after != max(before/2, leave):
				t.Fatalf("%v late: comes back, and stays away for %v after %v", time.Duration(late), after, before)
			case !stays && late >= int64(busyDelay) && before != longestLeave:
				t.Fatalf("%v late: comes back after %v", time.Duration(late), before)
			}
			if longer++; !stays {
				longer = 0
			}
			if longer > 6 {
				t.Fatalf("did not come back %d times in a row", longer)
			}
		}
	})
}

// TestReaderIsLast: whoever can run when the reader's time away is over has had a turn
// before the reader looks whether anybody reads, also with one processor, where timers come
// first. The scheduler may do otherwise now and then, but not mostly.
func TestReaderIsLast(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, server := progressPair(t)
	c := linked(t, server)
	p := &c.progress
	const rounds = 20
	stayed := 0
	for range rounds {
		const long = int64(time.Hour) // the timer is ours
		p.leave.Store(long)
		p.wanted.Store(true)
		c.interrupt()
		until(t, "the reader is away", p.away.Load)
		until(t, "its timer runs", p.armed.Load)
		seen := make(chan struct{})
		go func() {
			p.uses.Add(1)
			close(seen)
		}()
		p.tick.Reset(0)
		until(t, "the reader looks", func() bool { return p.leave.Load() != long && p.armed.Load() })
		<-seen
		if p.wanted.Load() {
			stayed++
		}
	}
	if stayed <= rounds/2 {
		t.Errorf("the reader was the first to run %d times of %d", rounds-stayed, rounds)
	}
}

// TestLooksYield: where there is one processor, who looks again and again and finds nothing
// lets others run, each vainLooks looks.
func TestLooksYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, server := progressPair(t)
	c := linked(t, server)
	c.look() // what the beginning of the connection left to be read
	for range 5 {
		ran := make(chan struct{})
		go close(ran)
		for range 2 * vainLooks {
			c.look()
		}
		select {
		case <-ran:
		default:
			t.Fatalf("nobody else has run in %d looks", 2*vainLooks)
		}
	}
}
