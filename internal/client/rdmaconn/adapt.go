package rdmaconn

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// The numbers of waiting for answers.
const (
	// adaptivePatience is for how long an adaptive call looks for an answer before
	// it sleeps: about as long as a sleep and a wake-up take. pollingPatience is
	// that of a call that polls by choice, singlePatience that of an adaptive one where
	// the program has one processor, which the server may be in need of.
	adaptivePatience = 50 * time.Microsecond
	pollingPatience  = time.Millisecond
	singlePatience   = 20 * time.Microsecond
	// adaptiveDepth is up to how many requests in flight are polled for; with more there
	// is always something to do after a wake-up.
	adaptiveDepth = 8
	// firstProbe and lastProbe bound how many requests are waited for in the way
	// that is better before the other is tried again.
	firstProbe, lastProbe = 16, 1024
	// trial is how many requests in a row a probe is: a server that is polled too is
	// awake only after some.
	trial = 16
	// hopeless is a delay, in nanoseconds, that polling ends its trial for: the
	// processors are at work for others. No delay counts as more.
	hopeless = 4 * int64(adaptivePatience)
	// promptDelay is the mean delay of polling below which the server is taken to be at work on
	// another processor: where both share one, to go there and back takes two switches and
	// the work. A call that looks in vain for want of the processor raises the mean.
	promptDelay = int64(5 * time.Microsecond)
	// inertia is how many delays count in a mean: where they are of two kinds, as with
	// client and server on one processor, fewer make the better way change all the time.
	inertia = 16
)

// pace are the measured delays of requests of one kind and about one size.
// Racing updates may lose a sample, which does no harm.
type pace struct {
	polled, slept atomic.Int64 // mean delays in nanoseconds, 0 if there is none yet
	since         atomic.Int64 // requests since the last probe
	probe         atomic.Int64 // how many there may be
	left          atomic.Int64 // requests of the probe that is under way
	way           atomic.Bool  // which it tries
}

// paces are sorted by direction and by the number of bits of the size.
type paces [2][33]pace

func (p *paces) of(kind requestKind, size uint32) *pace {
	way := 0
	if kind == kindWrite {
		way = 1
	}
	return &p[way][bits.Len32(size)]
}

// polls decides about the next request: it is polled for if answers that are polled
// for come within the patience, and clearly sooner than those that wake a sleeper. Now and
// then it is done in the other way, to see whether that has changed; each time that
// it has not, less often.
//
// Source: [LWIO §Wakeup]
func (p *pace) polls() bool {
	if left := p.left.Load(); left > 0 {
		p.left.Store(left - 1)
		return p.way.Load()
	}
	polled, slept := p.polled.Load(), p.slept.Load()
	if polled == 0 || slept == 0 {
		return p.try(polled == 0)
	}
	best := polled < int64(adaptivePatience) && sooner(polled, slept)
	if p.since.Add(1) <= max(p.probe.Load(), firstProbe) {
		return best
	}
	p.since.Store(0)
	p.probe.Store(min(max(2*p.probe.Load(), firstProbe), lastProbe))
	return p.try(!best)
}

// try begins to wait in the given way for some requests.
func (p *pace) try(polled bool) bool {
	p.way.Store(polled)
	p.left.Store(trial - 1)
	return polled
}

// took notes after how many nanoseconds an answer was seen.
func (p *pace) took(polled bool, ns int64) {
	was := sooner(p.polled.Load(), p.slept.Load())
	mean := &p.slept
	if polled {
		mean = &p.polled
	}
	ns = min(max(ns, 1), hopeless)
	if polled && ns == hopeless {
		p.left.Store(0)
	}
	if old := mean.Load(); old != 0 {
		ns = max(old+(ns-old)/inertia, 1)
	}
	mean.Store(ns)
	if was != sooner(p.polled.Load(), p.slept.Load()) {
		p.probe.Store(0)
	}
}

// isPrompt tells whether answers that are polled for come at once.
func (p *pace) isPrompt() bool {
	polled := p.polled.Load()
	return 0 < polled && polled < promptDelay
}

// sooner reports whether a delay of polling is so much shorter than that of sleeping that
// it is worth the processor.
func sooner(polled, slept int64) bool { return polled < slept-slept/4 }
