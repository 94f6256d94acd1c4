//go:build linux

package ring

import "encoding/binary"

// The kinds of entries in a ring.
const (
	Send            = 1
	Write           = 2
	ReadRequest     = 3 // asks for Total bytes; it has no payload
	ReadResponse    = 4 // the answer to the oldest unanswered read request
	SendByReference = 5 // a whole message; the bytes after the payload stay with the sender
	Skip            = 6 // the rest of the ring is unused in this round
	CompactSend     = 7 // a whole message; the payload begins after the first word of the header
)

// Flags of an entry.
const (
	FlagFirst     = 1 // the first part of a message
	FlagSolicited = 4
	FlagImmediate = 8 // in the last part of a write
)

// HeaderSize is the size of a full header in bytes. The size of an entry is a multiple of
// HeaderSize, so that no header wraps around the end of the ring. CompactSize is the size
// of a compact send's header. It is so small that a request or an answer fits into one
// cache line together with it.
const (
	HeaderSize  = 32
	CompactSize = 8
)

// Entry is the header of a part of a request. It is passed by address, because a copy
// that follows the stores of its fields stalls the processor until these stores, and all
// earlier stores into a ring, are in its cache.
//
// Fields that share one word of the ring are not adjacent here. If they were, the
// compiler would load them as one word just after they were stored separately. The
// processor would then stall until all earlier stores have left it, including the stores
// of the payload.
type Entry struct {
	Kind      uint8
	Length    uint32 // bytes of payload
	Total     uint32 // bytes from the first byte of this entry to the last byte of the request
	Immediate uint32
	Addr      uint64
	Token     uint32
	Flags     uint8
}

// Header returns the number of bytes before the payload.
func (e *Entry) Header() int {
	if e.Kind == CompactSend {
		return CompactSize
	}
	return HeaderSize
}

// Size returns the number of bytes of the entry in the ring.
func (e *Entry) Size() int { return roundEntry(e.Header() + int(e.Length)) }

// EntrySize returns the size of an entry with a full header and n bytes of payload.
func EntrySize(n int) int { return roundEntry(HeaderSize + n) }

func roundEntry(n int) int { return (n + HeaderSize - 1) &^ (HeaderSize - 1) }

// load copies a header out of a ring. It reads each byte once. pos is a multiple of 8.
func (e *Entry) load(ring []byte, pos int) {
	w := word(ring, pos).Load()
	e.Kind, e.Flags, e.Length = uint8(w), uint8(w>>8), uint32(w>>32)
	if e.Kind == CompactSend {
		e.Total, e.Token, e.Addr, e.Immediate = e.Length, 0, 0, 0
		return
	}
	w = word(ring, pos+8).Load()
	e.Total, e.Token = uint32(w), uint32(w>>32)
	e.Addr, e.Immediate = word(ring, pos+16).Load(), uint32(word(ring, pos+24).Load())
}

// Store writes the header into a ring at pos, a multiple of 8. The widest field comes
// first in each word, because the compiler combines adjacent fields of one size. That
// stalls the processor as described at Entry.
func (e *Entry) Store(ring []byte, pos int) {
	binary.NativeEndian.PutUint64(ring[pos:], uint64(e.Length)<<32|uint64(e.Kind)|uint64(e.Flags)<<8)
	if e.Kind == CompactSend {
		return
	}
	binary.NativeEndian.PutUint64(ring[pos+8:], uint64(e.Total)|uint64(e.Token)<<32)
	binary.NativeEndian.PutUint64(ring[pos+16:], e.Addr)
	binary.NativeEndian.PutUint64(ring[pos+24:], uint64(e.Immediate))
}
