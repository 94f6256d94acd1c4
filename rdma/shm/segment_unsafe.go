//go:build linux

package shm

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The layout of a segment but for its ring: control words, each in a cache line of its
// own, and the table of what the peer may write. Only its owner writes it.
const (
	offTail     = 0   // bytes that the owner ever put into its ring
	offHead     = 64  // bytes that the owner ever took from the peer's ring
	offSleep    = 128 // how the owner sleeps and wants to be woken, and a count of sleeps
	offWant     = 192 // not 0 while the owner waits for room in its ring
	offBusy     = 256 // 1 + the slot of the peer's table that the owner writes by
	offState    = 320 // why the owner ended the connection
	offBell     = 384 // counts how often the owner woke a peer that sleeps on this word
	tableOffset = 4096
	tableSlots  = 256
	slotSize    = 64
	segmentSize = tableOffset + tableSlots*slotSize
)

// segment is a mapped segment, this side's or the peer's.
type segment struct {
	mem                                  []byte
	ring                                 []byte
	tail, head, sleep, want, busy, state *atomic.Uint64
	bell                                 *atomic.Uint32
}

// newSegment interprets page-aligned memory, of segmentSize bytes, and that of the ring.
func newSegment(mem, ring []byte) *segment {
	s := &segment{mem: mem, ring: ring}
	for _, w := range []struct {
		p   **atomic.Uint64
		off int
	}{
		{&s.tail, offTail}, {&s.head, offHead}, {&s.sleep, offSleep},
		{&s.want, offWant}, {&s.busy, offBusy}, {&s.state, offState},
	} {
		*w.p = s.word(w.off)
	}
	s.bell = (*atomic.Uint32)(unsafe.Pointer(&mem[offBell]))
	return s
}

// How the owner of a segment sleeps, in its word.
const (
	sleepNot    = 0 // it looks by itself
	sleepSocket = 1 // on the connection's socket
	sleepBell   = 2 // on the bell
	sleepFutex  = 3 // on the word for that in the peer's segment
	sleepHow    = 3
)

// word is the 8-byte word at an offset that is a multiple of 8.
func (s *segment) word(off int) *atomic.Uint64 {
	_ = s.mem[off : off+8]
	return (*atomic.Uint64)(unsafe.Pointer(&s.mem[off]))
}

// slot is an entry of the table. Its owner sets the key last, and clears it first. The
// last two words are about the slot of that number in the peer's table: whose token it
// has if the owner mapped the memory, and how many targets the owner has loans of in it.
type slot struct{ key, base, size, offset, mapped, lent *atomic.Uint64 }

func (s *segment) slot(i int) slot {
	at := tableOffset + i*slotSize
	return slot{s.word(at), s.word(at + 8), s.word(at + 16), s.word(at + 24), s.word(at + 32), s.word(at + 40)}
}

// The rights of a slot, in its key beside the token; one without any is empty.
const (
	slotWrite = 1 << 32
	slotRead  = 2 << 32
)

// slotMapped is set beside the token in the word that says what is mapped.
const slotMapped = 1 << 32

// The kinds of entries in a ring.
const (
	entrySend   = 1
	entryWrite  = 2
	entryRead   = 3 // asks for total bytes; there is no payload
	entryAnswer = 4 // to the first read that is not answered
	entryLend   = 5 // a whole message, whose bytes after the payload are lent
	entrySkip   = 6 // the rest of the ring is not used this time round
	entryBrief  = 7 // a whole message, whose payload begins after the first word of the header
)

// Flags of an entry.
const (
	entryFirst     = 1 // of a message
	entryLast      = 2
	entrySolicited = 4
	entryImmediate = 8 // with the last part of a write
)

// headerSize is that of an entry, and what all of an entry is rounded up to, so
// that no header ever wraps around the end of the ring. That of a brief one is so short
// that a request or an answer is in one cache line with it: the peer waits for each line.
const (
	headerSize = 32
	briefSize  = 8
)

// entry is the header of a part of a request. It is handed on by its address: a copy
// right after its fields were written makes the processor wait until they, and all that
// was put into a ring before, have reached its cache.
//
// What goes into one word of the ring is not side by side here: it would be read as one,
// though it was just written in parts, for which the processor waits until all that was
// stored before, the payload in the ring, has left it.
type entry struct {
	kind      uint8
	length    uint32 // bytes of payload
	total     uint32 // bytes from this entry's first to the request's last
	immediate uint32
	addr      uint64
	token     uint32
	flags     uint8
}

// header is how many bytes come before the payload, size is how many the entry takes.
func (e *entry) header() int {
	if e.kind == entryBrief {
		return briefSize
	}
	return headerSize
}

func (e *entry) size() int { return whole(e.header() + int(e.length)) }

// whole is the room for n bytes.
func whole(n int) int { return (n + headerSize - 1) &^ (headerSize - 1) }

// load copies a header out of a ring, each byte once. pos is a multiple of 8.
func (e *entry) load(ring []byte, pos int) {
	w := word(ring, pos).Load()
	e.kind, e.flags, e.length = uint8(w), uint8(w>>8), uint32(w>>32)
	if e.kind == entryBrief {
		e.total, e.token, e.addr, e.immediate = e.length, 0, 0, 0
		return
	}
	w = word(ring, pos+8).Load()
	e.total, e.token = uint32(w), uint32(w>>32)
	e.addr, e.immediate = word(ring, pos+16).Load(), uint32(word(ring, pos+24).Load())
}

// touch looks at where the next entry will be.
func (c *consumer) touch() { word(c.peer.ring, int(c.head&uint64(len(c.peer.ring)-1))).Load() }

// word is the 8-byte word at an offset of a ring that is a multiple of 8.
func word(ring []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&ring[at : at+8][0]))
}

// store writes a header into a ring. The widest field comes first in a word: the compiler
// takes neighbours of one size together, and then they are not where they were just put.
func (e *entry) store(ring []byte, pos int) {
	binary.NativeEndian.PutUint64(ring[pos:], uint64(e.length)<<32|uint64(e.kind)|uint64(e.flags)<<8)
	if e.kind == entryBrief {
		return
	}
	binary.NativeEndian.PutUint64(ring[pos+8:], uint64(e.total)|uint64(e.token)<<32)
	binary.NativeEndian.PutUint64(ring[pos+16:], e.addr)
	binary.NativeEndian.PutUint64(ring[pos+24:], uint64(e.immediate))
}
