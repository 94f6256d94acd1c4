//go:build linux

package shm

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// keyBatch is how many random bytes are fetched at a time.
const keyBatch = 512

// keySource hands out random numbers that nobody can predict; fetching them in
// batches makes one cost some nanoseconds.
//
// Source: [RFC 5042 §6.1.1]
type keySource struct {
	mu   sync.Mutex
	buf  [keyBatch]byte
	left int
}

// uint64 is a random number.
func (k *keySource) uint64() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left < 8 {
		// Read of crypto/rand never fails; it ends the program instead.
		_, _ = rand.Read(k.buf[:])
		k.left = keyBatch
	}
	k.left -= 8
	b := k.buf[k.left : k.left+8]
	v := binary.NativeEndian.Uint64(b)
	clear(b)
	return v
}
