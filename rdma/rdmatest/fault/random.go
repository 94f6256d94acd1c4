package fault

import (
	"math/rand/v2"
	"time"

	"lwio/rdma"
)

// AtOperation returns a fault function that acts on request n of each queue pair, counted
// from 1.
func AtOperation(n uint64, act Action) func(Attempt) Action {
	return func(a Attempt) Action {
		if a.N == n {
			return act
		}
		return Pass()
	}
}

// AtByte returns a fault function that acts on the request with data byte n of each queue
// pair. n counts from 0 over the data of all requests of the queue pair.
func AtByte(n uint64, act Action) func(Attempt) Action {
	return func(a Attempt) Action {
		if a.Before <= n && n < a.Before+uint64(a.Bytes) {
			return act
		}
		return Pass()
	}
}

// Chances has the probability of each fault, from 0 to 1. They are tried in the order of
// the fields, and the first hit decides.
type Chances struct {
	// Cut, Fail, Drop, Flip and Delay are the chances of the actions. Flip inverts a
	// random bit.
	Cut, Fail, Drop, Flip, Delay float64
	// Status is the status of Fail; 0 means StatusInsufficientResources.
	Status rdma.Status
	// MaxDelay bounds a delay, which is random; 0 means 1 ms.
	MaxDelay time.Duration
}

// Random returns a fault function with random decisions. They depend only on the seed,
// the number of the queue pair and the number of the request on it. Time and other queue
// pairs have no influence.
func Random(seed uint64, c Chances) func(Attempt) Action {
	if c.Status == rdma.StatusSuccess {
		c.Status = rdma.StatusInsufficientResources
	}
	if c.MaxDelay <= 0 {
		c.MaxDelay = time.Millisecond
	}
	return func(a Attempt) Action {
		dice := rand.New(rand.NewPCG(seed, a.Pair<<40^a.N))
		strikes := func(chance float64) bool { return dice.Float64() < chance }
		switch {
		case strikes(c.Cut):
			return Cut()
		case strikes(c.Fail):
			return Fail(c.Status)
		case strikes(c.Drop):
			return Drop()
		case strikes(c.Flip):
			return Flip(dice.Uint64())
		case strikes(c.Delay):
			return Delay(time.Duration(dice.Int64N(int64(c.MaxDelay))))
		}
		return Pass()
	}
}
