package rdmatest

import (
	"bytes"
	"math/rand/v2"
)

// fill writes bytes that differ from zero and from the same bytes shifted.
func fill(p []byte) {
	rng := rand.NewChaCha8([32]byte{1})
	for i := range p {
		p[i] = byte(rng.Uint64()) | 1
	}
}

// same reports whether a and b are equal.
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

// prefixed reports whether got is want, possibly padded with zeros. Fabrics with private
// data of fixed size pad it.
func prefixed(got, want []byte) bool {
	return bytes.HasPrefix(got, want) && zero(got[len(want):])
}
