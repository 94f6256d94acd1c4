package writelog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// Bounds of a log. MaxSlots is the most writes of the ring, and MaxEarlier the most writes of earlier connections.
const (
	MaxSlots   = 1 << 14
	MaxEarlier = 1 << 14
)

// Header describes a connection.
type Header struct {
	// Boot is the boot id of the host, at most 64 bytes.
	Boot string
	// ID names the connection. User is the canonical name of its user, at most 918 bytes.
	ID   [8]byte
	User string
	// Replaced is the ID of the log that this one takes the place of, or 0.
	Replaced [8]byte
	// Previous is the ID by which the client knows the connection that this one replaced, or 0, and PreviousNext the
	// number of the next message there.
	Previous     [8]byte
	PreviousNext int64
}

const (
	magic      = "LWIOWRIT"
	headerSize = 4096 // and the slots follow

	offSum      = 8
	offFixed    = 16 // beginning of the fields that do not change
	offSlots    = offFixed
	offEarlier  = offSlots + 4
	offID       = offEarlier + 4
	offPrevious = offID + 8
	offPrevNext = offPrevious + 8
	offReplaced = offPrevNext + 8
	offBoot     = offReplaced + 8
	maxBoot     = 64
	offUser     = offBoot + 2 + maxBoot
	maxUser     = endFixed - offUser - 2
	endFixed    = offFixed + 1024

	offNext = 2048
	offUsed = offNext + 8
)

// Errors of a header or of contents.
var (
	errTooLong = errors.New("the boot id or the name of the user is too long")
	errDamaged = errors.New("damaged")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes the header into the beginning of b, which is zero.
func (h *Header) encode(b []byte, slots, earlier int) error {
	if len(h.Boot) > maxBoot || len(h.User) > maxUser {
		return errTooLong
	}
	e := binary.NativeEndian
	copy(b, magic)
	e.PutUint32(b[offSlots:], uint32(slots))
	e.PutUint32(b[offEarlier:], uint32(earlier))
	copy(b[offID:], h.ID[:])
	copy(b[offPrevious:], h.Previous[:])
	copy(b[offReplaced:], h.Replaced[:])
	e.PutUint64(b[offPrevNext:], uint64(h.PreviousNext))
	for _, x := range []struct {
		at   int
		text string
	}{{offBoot, h.Boot}, {offUser, h.User}} {
		e.PutUint16(b[x.at:], uint16(len(x.text)))
		copy(b[x.at+2:], x.text)
	}
	e.PutUint32(b[offSum:], crc32.Checksum(b[offFixed:endFixed], castagnoli))
	return nil
}

// Contents are the contents of a log.
type Contents struct {
	Header
	// Next is a number of the next message: not above the right one, and not below it by more than the caller of
	// SetNext lets it be. Used reports that a message has arrived.
	Next int64
	Used bool
	// Records are the writes, in the order of their numbers, and Slots their places in the log.
	Records []Record
	Slots   []int
}

// decode returns the contents of a file.
//
// Errors: a file that no log has left.
func decode(b []byte) (*Contents, error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: the header", errDamaged)
	}
	e := binary.NativeEndian
	ring, earlier := int(e.Uint32(b[offSlots:])), int(e.Uint32(b[offEarlier:]))
	switch {
	case e.Uint32(b[offSum:]) != crc32.Checksum(b[offFixed:endFixed], castagnoli):
		return nil, fmt.Errorf("%w: the sum of the header", errDamaged)
	case ring > MaxSlots || earlier > MaxEarlier || len(b) != fileSize(ring, earlier):
		return nil, fmt.Errorf("%w: the size", errDamaged)
	}
	c := new(Contents)
	copy(c.ID[:], b[offID:])
	copy(c.Previous[:], b[offPrevious:])
	copy(c.Replaced[:], b[offReplaced:])
	c.PreviousNext = int64(e.Uint64(b[offPrevNext:]))
	boot, user := int(e.Uint16(b[offBoot:])), int(e.Uint16(b[offUser:]))
	if boot > maxBoot || user > maxUser || c.PreviousNext < 0 {
		return nil, fmt.Errorf("%w: the header", errDamaged)
	}
	c.Boot, c.User = string(b[offBoot+2:][:boot]), string(b[offUser+2:][:user])
	next := e.Uint64(b[offNext:])
	c.Used = e.Uint64(b[offUsed:]) != 0
	if next > math.MaxInt64 {
		return nil, fmt.Errorf("%w: the number of the next message", errDamaged)
	}
	c.Next = int64(next)
	return c, c.decodeSlots(b[headerSize:])
}

// decodeSlots reads the slots of a file.
func (c *Contents) decodeSlots(b []byte) error {
	type place struct {
		Record
		slot int
	}
	var all []place
	for i := 0; len(b) >= slotSize; i, b = i+1, b[slotSize:] {
		var s slot
		for j := range s {
			s[j] = binary.NativeEndian.Uint64(b[8*j:])
		}
		if s[wordNumber] == 0 {
			continue
		}
		r, ok := s.decode()
		if !ok {
			return fmt.Errorf("%w: slot %d", errDamaged, i)
		}
		all = append(all, place{r, i})
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.Number, b.Number) })
	for _, p := range all {
		c.Records, c.Slots = append(c.Records, p.Record), append(c.Slots, p.slot)
	}
	return nil
}

// fileSize returns the size of a file, in bytes.
func fileSize(ring, earlier int) int { return headerSize + (ring+earlier)*slotSize }
