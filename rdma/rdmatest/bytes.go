package rdmatest

import (
	"bytes"
	"math/rand/v2"
)

// fill makes p differ from zeros and from itself shifted.
func fill(p []byte) {
	rng := rand.NewChaCha8([32]byte{1})
	for i := range p {
		p[i] = byte(rng.Uint64()) | 1
	}
}

// same compares.
func same(a, b []byte) bool { return bytes.Equal(a, b) }

// zero reports whether all of p is zero.
func zero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// prefixed reports whether got is want, perhaps padded with zeros as fabrics with
// private data of fixed size do.
func prefixed(got, want []byte) bool {
	return bytes.HasPrefix(got, want) && zero(got[len(want):])
}
