// Package ring has the shared memory of the two sides of a connection, and the means to
// wake a sleeping side. It knows neither requests nor queue pairs.
//
// A [Segment] belongs to one side and is mapped read-only by the other: control words, a
// table of [Slot]s, and a ring of [Entry] headers with their payload. A [Producer] writes
// the ring of its own segment, a [Consumer] reads the ring of the peer's. Segments and
// memory lie in sealed memory files: [NewMemfd] and [NewSegment] make them, [MapMemfd]
// and [MapSegment] check and map the files of a peer. A [Doorbell] and [FutexWait] are
// the two ways to sleep until the peer wakes this side.
//
// docs/providers.md specifies the layout. A peer can change its segment and its memory at
// any moment: each word is read once, and then checked.
//
// Source: [OP-89b], [OP-113]
package ring
