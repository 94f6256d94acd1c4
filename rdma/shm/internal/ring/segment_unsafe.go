//go:build linux

package ring

import (
	"sync/atomic"
	"unsafe"
)

const (
	// Slots is the number of slots in a segment's table.
	Slots = 256
	// SegmentSize is the size of a segment without its ring, in bytes.
	SegmentSize = 4096 + Slots*64
)

// Segment is a mapped segment, of this side or of the peer. Only its owner writes it.
type Segment struct {
	*Words
	// Ring is the memory of the ring; its length is a power of two.
	Ring []byte
	mem  []byte // backs Words
}

// Words has the control words of a segment, each in its own cache line, and the table.
type Words struct {
	// Tail counts the bytes that the owner has put into its ring, Head the bytes that it
	// has taken out of the peer's ring.
	Tail atomic.Uint64
	_    [56]byte
	Head atomic.Uint64
	_    [56]byte
	// Sleep states how the owner sleeps: one of the Sleep constants in the bits of
	// SleepMask. The bits above are a number that changes with every sleep.
	Sleep atomic.Uint64
	_     [56]byte
	// Waiting is not 0 while the owner waits for room in its ring.
	Waiting atomic.Uint64
	_       [56]byte
	// Busy is 1 + the slot of the peer's table through which the owner is copying, or 0.
	Busy atomic.Uint64
	_    [56]byte
	// State states how the owner ended the connection; 0 before the end.
	State atomic.Uint64
	_     [56]byte
	// Futex counts the wake-ups of a peer that sleeps on this word.
	Futex atomic.Uint32
	_     [4096 - 6*64 - 4]byte

	table [Slots]Slot
}

// The ways in which the owner of a segment sleeps.
const (
	Awake         = 0 // it busy-polls
	SleepSocket   = 1 // on the connection's socket
	SleepDoorbell = 2 // on its doorbell
	SleepFutex    = 3 // on the Futex word of the peer's segment
	SleepMask     = 3
)

// Slot is an entry of a segment's table: memory of the owner that the peer may access.
// The owner sets Key last, and clears it first.
//
// Mapped and References are about the slot with the same number in the peer's table.
type Slot struct {
	// Key has the token of the region in its low half and the rights above it. A slot
	// without rights is empty.
	Key atomic.Uint64
	// Base is the remote address of the region, Size its length and Offset its offset in
	// the memory, in bytes.
	Base, Size, Offset atomic.Uint64
	// Mapped has the token of the peer's slot, and SlotMapped, if the owner has mapped
	// the memory of that slot.
	Mapped atomic.Uint64
	// References is not 0 while the owner holds data by reference in the peer's slot.
	References atomic.Uint64
	_          [16]byte
}

// The bits above the token in Slot.Key and Slot.Mapped.
const (
	SlotWrite  = 1 << 32 // in Key: the peer may write
	SlotRead   = 2 << 32 // in Key: the peer may read
	SlotMapped = 1 << 32 // in Mapped
)

// Slot returns slot i of the table.
func (s *Segment) Slot(i int) *Slot { return &s.table[i] }

// segmentOf interprets page-aligned memory of SegmentSize bytes, and the memory of the
// ring, as a segment.
func segmentOf(mem, ring []byte) *Segment {
	return &Segment{Words: (*Words)(unsafe.Pointer(&mem[:SegmentSize][0])), Ring: ring, mem: mem}
}

// word returns the 8-byte word at an offset, which is a multiple of 8.
func word(mem []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[at : at+8][0]))
}
