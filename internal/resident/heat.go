//go:build linux

package resident

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Bounds of how many chunks are counted at a time.
const (
	minHeat = 1 << 10
	maxHeat = 1 << 16
)

// heat counts reads of chunks, of those that are read most: chunks that share a slot push
// each other out, the more often the less they are read. So its size does not depend on what
// there is to read. Counts that come at the same time may get lost, or count for another
// chunk. Safe for concurrent use.
type heat struct {
	slots     []heatSlot
	shift     int
	threshold int32
	started   time.Time
}

// heatSlot counts for the chunk whose key it has. since is when, in seconds, the count was
// an eighth of what makes the chunk hot.
type heatSlot struct {
	key   atomic.Uint64
	hits  atomic.Int32
	since atomic.Uint32
}

func newHeat(chunks int64, threshold int) *heat {
	n := minHeat
	for int64(n) < 4*chunks && n < maxHeat {
		n *= 2
	}
	return &heat{
		slots: make([]heatSlot, n), shift: 64 - bits.TrailingZeros(uint(n)),
		threshold: int32(threshold), started: time.Now(),
	}
}

// spread makes a number of which all bits count.
func spread(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 }

// add counts one read of a chunk, whose key is not 0, and tells in which slot if that makes
// it hot; it then counts anew.
func (h *heat) add(key uint64) *heatSlot {
	s := &h.slots[spread(key)>>h.shift]
	n := int32(1)
	switch {
	case s.key.Load() == key:
		n = s.hits.Add(1)
	case s.hits.Add(-1) > 0:
		return nil // another is hotter
	default:
		s.key.Store(key)
		s.hits.Store(1)
	}
	if n == max(h.threshold/8, 1) {
		s.since.Store(h.now())
	}
	if n < h.threshold {
		return nil
	}
	s.hits.Store(0)
	if h.now()-s.since.Load() > uint32(HotTime/time.Second) {
		return nil
	}
	return s
}

// again makes a chunk hot after few more reads, as nobody had the time for it.
func (h *heat) again(s *heatSlot) {
	s.since.Store(h.now())
	s.hits.Store(h.threshold - max(h.threshold/8, 1))
}

// now is the time in seconds.
func (h *heat) now() uint32 { return uint32(time.Since(h.started) / time.Second) }
