package rdmaconn

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// The numbers of the decision between polling and sleeping.
const (
	// adaptivePatience is the time that a call busy-polls in mode Adaptive before it sleeps: about
	// as long as a sleep and a wake-up take. pollingPatience is the time in mode Polling.
	// singlePatience is the time in mode Adaptive with one processor, which the server may need.
	adaptivePatience = 50 * time.Microsecond
	pollingPatience  = time.Millisecond
	singlePatience   = 20 * time.Microsecond
	// adaptiveDepth is the largest number of pending requests with which mode Adaptive polls. With
	// more there is always work after a wake-up.
	adaptiveDepth = 8
	// firstProbe and lastProbe bound the number of requests that wait in the better way before the
	// other way is tried again.
	firstProbe, lastProbe = 16, 1024
	// trial is the number of requests in a row of one probe. A server that is polled too is awake
	// only after some requests.
	trial = 16
	// maxDelay is the delay, in nanoseconds, that ends a trial of polling: the processors have
	// other work. A longer delay counts as this one.
	maxDelay = 4 * int64(adaptivePatience)
	// promptDelay is a mean delay of polling, in nanoseconds. With a shorter mean the server is
	// taken to run on another processor. On one processor an answer takes two switches and the
	// work. A call that busy-polls without success, as it lacks the processor, raises the mean.
	promptDelay = int64(5 * time.Microsecond)
	// inertia is the number of delays that count in a mean. Where delays are of two kinds, as with
	// client and server on one processor, a smaller number makes the better way change often.
	inertia = 16
)

// pace has the measured delays of requests of one kind and about one size. Concurrent updates may
// lose a sample, which does no harm.
type pace struct {
	polled, slept atomic.Int64 // mean delays in nanoseconds, 0 if there is none yet
	since         atomic.Int64 // requests since the last probe
	probe         atomic.Int64 // requests until the next probe
	left          atomic.Int64 // requests that the probe under way still takes
	way           atomic.Bool  // the way that it tries: true is polling
}

// paces are sorted by direction and by the number of bits of the size. Each kind of file call has one.
type paces struct {
	transfers [2][33]pace
	calls     [kindChange - kindStat + 1]pace
}

func (p *paces) of(kind requestKind, size uint32) *pace {
	way := 0
	switch {
	case kind >= kindStat:
		return &p.calls[kind-kindStat]
	case kind == kindWrite:
		way = 1
	}
	return &p.transfers[way][bits.Len32(size)]
}

// polls decides about the next request. It is polled if polled answers come within the patience,
// and clearly sooner than answers that wake a sleeper. At times a probe tries the other way. Each
// probe that confirms the better way doubles the number of requests until the next.
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

// try begins a probe of one way.
func (p *pace) try(polled bool) bool {
	p.way.Store(polled)
	p.left.Store(trial - 1)
	return polled
}

// took notes the delay of an answer, in nanoseconds.
func (p *pace) took(polled bool, ns int64) {
	was := sooner(p.polled.Load(), p.slept.Load())
	mean := &p.slept
	if polled {
		mean = &p.polled
	}
	ns = min(max(ns, 1), maxDelay)
	if polled && ns == maxDelay {
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

// isPrompt reports whether polled answers come at once.
func (p *pace) isPrompt() bool {
	polled := p.polled.Load()
	return 0 < polled && polled < promptDelay
}

// sooner reports whether a delay of polling is so much shorter than a delay of sleeping that it is
// worth the processor.
func sooner(polled, slept int64) bool { return polled < slept-slept/4 }
