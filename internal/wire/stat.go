package wire

import (
	"encoding/binary"
	"time"
)

// NewStat makes a STAT message: a StatInfo of the file goes to target, whose Length is at least
// StatInfoSize.
//
// Source: [OP-116]
func NewStat(fid uint16, target RDMARegion) Header {
	h := fileCall(OpStat, fid)
	h.Length, h.DataVa, h.DataMh = target.Length, target.DataVa, target.DataMh
	return h
}

// StatInfoSize is the size of a StatInfo, in bytes.
const StatInfoSize = 72

// statDeletePending is the bit of Flags in a StatInfo.
const statDeletePending = 1 << 0

// StatInfo describes a file, with the values of SMB's FileAllInformation. Times count 100 ns from the
// start of 1601, UTC, rounded down; 0 is no time.
//
//	 0 Created u64   8 Accessed u64   16 Modified u64   24 Changed u64
//	32 AllocationSize u64   40 Size u64   48 ID u64
//	56 Attributes u32   60 Links u32   64 Flags u32   68 0 u32
//
// Source: [OP-116]
type StatInfo struct {
	Created, Accessed, Modified, Changed time.Time
	// AllocationSize and Size are in bytes.
	AllocationSize, Size uint64
	// ID identifies the file within its share.
	ID uint64
	// Attributes are the bits of [MS-FSCC 2.6].
	Attributes uint32
	// Links is the number of names of the file.
	Links uint32
	// DeletePending says that the file is deleted when its last open is closed. Bit 0 of Flags.
	DeletePending bool
}

// AppendTo appends the 72 bytes of the description to b.
func (i *StatInfo) AppendTo(b []byte) []byte {
	for _, t := range [...]time.Time{i.Created, i.Accessed, i.Modified, i.Changed} {
		b = binary.LittleEndian.AppendUint64(b, ticksOf(t))
	}
	for _, v := range [...]uint64{i.AllocationSize, i.Size, i.ID} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, i.Attributes)
	b = binary.LittleEndian.AppendUint32(b, i.Links)
	var flags uint64
	if i.DeletePending {
		flags = statDeletePending
	}
	return binary.LittleEndian.AppendUint64(b, flags)
}

// DecodeStatInfo decodes a description. It ignores unknown flags.
//
// Errors: *Error, which ends the connection, unless b has exactly 72 bytes.
func DecodeStatInfo(b []byte) (StatInfo, error) {
	if len(b) != StatInfoSize {
		return StatInfo{}, wrongSize("STAT information", len(b), StatInfoSize)
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
	return StatInfo{
		Created: timeOf(at(0)), Accessed: timeOf(at(8)), Modified: timeOf(at(16)), Changed: timeOf(at(24)),
		AllocationSize: at(32), Size: at(40), ID: at(48),
		Attributes: binary.LittleEndian.Uint32(b[56:]), Links: binary.LittleEndian.Uint32(b[60:]),
		DeletePending: b[64]&statDeletePending != 0,
	}, nil
}

const (
	// epochSeconds is from 1601 to 1970.
	epochSeconds   = 11644473600
	ticksPerSecond = 10_000_000
	maxTicks       = 1<<63 - 1
)

// ticksOf translates a time. The zero Time and times before 1601 become 0, later ones than the last the last.
//
// Source: [MS-DTYP 2.3.3]
func ticksOf(t time.Time) uint64 {
	s := t.Unix() + epochSeconds
	switch {
	case t.IsZero() || s < 0:
		return 0
	case s >= maxTicks/ticksPerSecond:
		return maxTicks
	}
	return uint64(s)*ticksPerSecond + uint64(t.Nanosecond()/100)
}

// timeOf translates ticks. 0 and values above the last time are no time.
func timeOf(ticks uint64) time.Time {
	if ticks == 0 || ticks > maxTicks {
		return time.Time{}
	}
	return time.Unix(int64(ticks/ticksPerSecond)-epochSeconds, int64(ticks%ticksPerSecond)*100).UTC()
}
