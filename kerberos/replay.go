package kerberos

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxReplays bounds the authenticators of one generation. Each takes about 50 bytes.
const maxReplays = 1 << 16

// replays remembers the authenticators of clients, as long as their time can be valid. Only requests of
// clients with a valid ticket are added. A principal has at most three quarters of a generation. Safe
// for concurrent use.
//
// Entries are in two generations. Each lasts as long as an authenticator can be valid, so all of the
// older one can be dropped at once.
//
// Source: [RFC 4120 §3.2.3]
type replays struct {
	lifetime time.Duration

	mu    sync.Mutex
	begin time.Time // of the younger generation
	young generation
	old   generation
}

// generation is a set of authenticators.
type generation struct {
	seen map[[16]byte]struct{}
	of   map[string]int // number of entries of a principal
}

func newReplays(lifetime time.Duration) *replays { return &replays{lifetime: lifetime} }

// replayResult is the result of replays.add.
type replayResult int

const (
	replayNew replayResult = iota
	replaySeen
	replayFull // it cannot be remembered, so it must not be accepted
)

// add adds the authenticator of a principal.
func (r *replays) add(now time.Time, principal string, authenticator []byte) replayResult {
	sum := sha256.Sum256(authenticator)
	key := [16]byte(sum[:16])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnLocked(now)
	if _, seen := r.young.seen[key]; seen {
		return replaySeen
	}
	if _, seen := r.old.seen[key]; seen {
		return replaySeen
	}
	if len(r.young.seen) >= maxReplays || r.young.of[principal] >= maxReplays-maxReplays/4 {
		return replayFull
	}
	if r.young.seen == nil {
		r.young = generation{make(map[[16]byte]struct{}), make(map[string]int)}
	}
	r.young.seen[key] = struct{}{}
	r.young.of[principal]++
	return replayNew
}

// turnLocked begins a new generation if the younger one is old enough. Precondition: mu is held.
func (r *replays) turnLocked(now time.Time) {
	age := now.Sub(r.begin)
	switch {
	case age >= 2*r.lifetime:
		r.old, r.young = generation{}, generation{}
	case age >= r.lifetime:
		r.old, r.young = r.young, generation{}
	case age >= 0:
		return
	}
	r.begin = now
}
