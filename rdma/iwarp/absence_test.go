package iwarp

import (
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The reader stays away longer while other goroutines read. It returns soon after they
// stop, and finally also if the processors are busy.
func TestReaderAbsenceDoublesWhileOthersRead(t *testing.T) {
	type turn struct {
		Read bool
		Late int64
	}
	turns := rapid.SliceOf(rapid.Custom(func(t *rapid.T) turn {
		return turn{rapid.Bool().Draw(t, "read"), rapid.Int64Range(0, int64(2*busyDelay)).Draw(t, "late")}
	}))
	rapid.Check(t, func(t *rapid.T) {
		var p sleeper
		p.init()
		unread := 0
		for _, x := range turns.Draw(t, "turns") {
			before := time.Duration(p.absence.Load())
			stays := p.stays(x.Read, time.Duration(x.Late))
			after, busy := time.Duration(p.absence.Load()), x.Late >= int64(busyDelay)
			switch {
			case x.Read && (!stays || after != min(2*before, longestAbsence)):
				t.Fatalf("absence %v, with reads by others: stays %t, for %v", before, stays, after)
			case !x.Read && stays && (!busy || after != 2*before || after > busyAbsence):
				t.Fatalf("%v late: stays away for %v after %v", time.Duration(x.Late), after, before)
			case !stays && busy && before < busyAbsence:
				t.Fatalf("%v late: comes back after %v", time.Duration(x.Late), before)
			}
			if unread++; x.Read {
				unread = 0
			}
			if !stays {
				return
			}
			if unread > 4 {
				t.Fatalf("did not come back %d times in a row", unread)
			}
		}
	})
}

// At the end of the reader's absence, runnable goroutines run before the reader checks
// whether other goroutines read. This holds with one processor too, where timers come
// first. The scheduler may differ sometimes, but not mostly. After a read by another
// goroutine the reader stays away longer. Its next absence begins with the initial time
// in any case.
func TestOtherGoroutinesRunBeforeTheReader(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, server := linkedPair(t)
	c := linked(t, server)
	p := &c.sleeper
	const rounds = 20
	stayed := 0
	for range rounds {
		const long = int64(time.Hour) // long enough that the timer never expires
		p.absence.Store(long)
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
		until(t, "the reader looks", func() bool { return p.absence.Load() != long && p.armed.Load() })
		<-seen
		if p.wanted.Load() {
			stayed++
			if got := time.Duration(p.absence.Load()); got != longestAbsence {
				t.Errorf("other goroutines have read, and the reader stays away for %v", got)
			}
		}
		p.wanted.Store(false)
		p.nudge()
		until(t, "the reader is back", func() bool { return !p.away.Load() })
		if got := time.Duration(p.absence.Load()); got != absence {
			t.Errorf("the reader is back, and stays away for %v the next time", got)
		}
	}
	if stayed <= rounds/2 {
		t.Errorf("the reader was the first to run %d times of %d", rounds-stayed, rounds)
	}
}

// With one processor, a poller without results yields at every emptyLooks looks.
func TestEmptyLooksYieldOnOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, server := linkedPair(t)
	c := linked(t, server)
	c.look() // reads the data of the connection's beginning
	for range 5 {
		ran := make(chan struct{})
		go close(ran)
		for range 2 * emptyLooks {
			c.look()
		}
		select {
		case <-ran:
		default:
			t.Fatalf("no other goroutine has run in %d looks", 2*emptyLooks)
		}
	}
}
