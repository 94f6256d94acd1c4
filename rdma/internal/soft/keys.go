package soft

import (
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
)

// Keys hands out random numbers that nobody can predict, each in some
// nanoseconds: a generator that is cryptographically strong, seeded by the
// system. The zero value works. Safe for concurrent use.
//
// Source: [RFC 5042 §6.1.1]
type Keys struct {
	mu  sync.Mutex
	gen *rand.ChaCha8
}

// Uint64 is a random number.
func (k *Keys) Uint64() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gen == nil {
		k.gen = newGenerator()
	}
	return k.gen.Uint64()
}

func newGenerator() *rand.ChaCha8 {
	var seed [32]byte
	// Read of crypto/rand never fails; it ends the program instead.
	_, _ = crand.Read(seed[:])
	return rand.NewChaCha8(seed)
}
