package softrdma

import (
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
)

// Keys makes unpredictable random numbers in some nanoseconds each, with a
// cryptographically strong generator. The zero value works. Safe for concurrent use.
//
// Source: [RFC 5042 §6.1.1]
type Keys struct {
	mu sync.Mutex
	// Generator is set before the first use. If it is nil, the system seeds a generator.
	Generator *rand.ChaCha8
}

// Uint64 returns a random number.
func (k *Keys) Uint64() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.readyLocked().Uint64()
}

// generator returns a new generator for a caller that has its own lock.
func (k *Keys) generator() *rand.ChaCha8 {
	var seed [32]byte
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.readyLocked().Read(seed[:]) // never fails
	return rand.NewChaCha8(seed)
}

func (k *Keys) readyLocked() *rand.ChaCha8 {
	if k.Generator == nil {
		var seed [32]byte
		// Read of crypto/rand never fails; it ends the program instead.
		_, _ = crand.Read(seed[:])
		k.Generator = rand.NewChaCha8(seed)
	}
	return k.Generator
}
