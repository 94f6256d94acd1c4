// Package ring is the memory that the two sides of a shared-memory connection share, and
// the means to wake a side that sleeps. It knows neither requests nor queue pairs.
//
// A [Segment] belongs to one side and is mapped read-only by the other: control words, a
// table of [Slot]s, and a ring of [Entry] headers with their payload. A [Producer] writes
// the ring of its own segment, a [Consumer] reads the ring of the peer's. Segments and
// memory lie in sealed memory files: [NewMemfd] and [NewSegment] make them, [MapMemfd] and
// [MapSegment] check and map those of a peer. A [Doorbell] and [FutexWait] are the two ways
// to sleep until the peer wakes this side.
//
// docs/providers.md specifies the layout. A peer can change all that it owns at any moment:
// each word is read once, and checked after that.
//
// Source: [OP-89b], [OP-113]
package ring
