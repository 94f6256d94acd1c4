package frame

import (
	"encoding/binary"
	"errors"
)

// Sizes of the DDP headers in bytes, including the two control bytes.
//
// Source: [RFC 5041 §4.2], [RFC 5041 §4.3]
const (
	TaggedSize   = 14
	UntaggedSize = 18
)

// The bits of the DDP control byte.
const (
	ddpTagged      = 0x80
	DDPLast        = 0x40
	ddpVersionMask = 0x03
	ddpVersion     = 0x01
)

// The queues of untagged messages that RDMAP uses.
//
// Source: [RFC 5040 §5], [RFC 7306 §5]
const (
	QueueSend           = 0
	QueueRequest        = 1
	QueueTerminate      = 2
	QueueAtomicResponse = 3
)

// errSegmentShort reports a ULPDU that is shorter than its header.
var errSegmentShort = errors.New("DDP segment shorter than its header")

// Segment is the header of a DDP segment with the control byte of RDMAP.
type Segment struct {
	DDP, RDMAP byte // the two control bytes, as on the wire
	// STag is the STag of a tagged segment. In an untagged segment it has the 32 bits for
	// RDMAP: the STag to invalidate, or 0.
	STag uint32
	TO   uint64 // tagged
	// QN, MSN and MO are queue number, message sequence number and message offset of an
	// untagged segment.
	QN, MSN, MO uint32
}

// Tagged reports whether the segment is of the tagged model.
func (s *Segment) Tagged() bool { return s.DDP&ddpTagged != 0 }

// Last reports whether the segment is the last of its message.
func (s *Segment) Last() bool { return s.DDP&DDPLast != 0 }

// DDPVersionOK reports whether the version of DDP is known.
func (s *Segment) DDPVersionOK() bool { return s.DDP&ddpVersionMask == ddpVersion }

// RDMAPVersionOK reports whether the version of RDMAP is known.
func (s *Segment) RDMAPVersionOK() bool { return s.RDMAP&rdmapVersionMask == rdmapVersion }

// Opcode returns the kind of the message.
func (s *Segment) Opcode() Opcode { return Opcode(s.RDMAP & rdmapOpcodeMask) }

// Size returns the number of header bytes.
func (s *Segment) Size() int {
	if s.Tagged() {
		return TaggedSize
	}
	return UntaggedSize
}

// AppendTo appends the header.
func (s *Segment) AppendTo(b []byte) []byte {
	b = append(b, s.DDP, s.RDMAP)
	b = binary.BigEndian.AppendUint32(b, s.STag)
	if s.Tagged() {
		return binary.BigEndian.AppendUint64(b, s.TO)
	}
	b = binary.BigEndian.AppendUint32(b, s.QN)
	b = binary.BigEndian.AppendUint32(b, s.MSN)
	return binary.BigEndian.AppendUint32(b, s.MO)
}

// Decode reads the header at the start of a ULPDU. It does not check the versions,
// because version errors belong to two layers.
//
// It fills a segment in place because the processor stalls on a copy that follows the
// stores of the fields.
func (s *Segment) Decode(b []byte) error {
	if len(b) < TaggedSize || b[0]&ddpTagged == 0 && len(b) < UntaggedSize {
		return errSegmentShort
	}
	s.DDP, s.RDMAP, s.STag = b[0], b[1], binary.BigEndian.Uint32(b[2:])
	if b[0]&ddpTagged != 0 {
		s.TO = binary.BigEndian.Uint64(b[6:])
		s.QN, s.MSN, s.MO = 0, 0, 0
		return nil
	}
	s.TO = 0
	s.QN = binary.BigEndian.Uint32(b[6:])
	s.MSN = binary.BigEndian.Uint32(b[10:])
	s.MO = binary.BigEndian.Uint32(b[14:])
	return nil
}

// SetTagged makes s the header of a part of a tagged message.
func (s *Segment) SetTagged(op Opcode, stag uint32, to uint64, last bool) {
	s.DDP, s.RDMAP = ddpTagged|controlByte(last), rdmapVersion|byte(op)
	s.STag, s.TO, s.QN, s.MSN, s.MO = stag, to, 0, 0, 0
}

// SetUntagged makes s the header of a part of an untagged message.
func (s *Segment) SetUntagged(op Opcode, qn, msn, mo uint32, last bool) {
	s.DDP, s.RDMAP = controlByte(last), rdmapVersion|byte(op)
	s.STag, s.TO, s.QN, s.MSN, s.MO = 0, 0, qn, msn, mo
}

// controlByte returns the DDP control byte of an untagged segment.
func controlByte(last bool) byte {
	if last {
		return ddpVersion | DDPLast
	}
	return ddpVersion
}

// TaggedSegment returns the segment that SetTagged makes.
func TaggedSegment(op Opcode, stag uint32, to uint64, last bool) (s Segment) {
	s.SetTagged(op, stag, to, last)
	return s
}

// UntaggedSegment returns the segment that SetUntagged makes.
func UntaggedSegment(op Opcode, qn, msn, mo uint32, last bool) (s Segment) {
	s.SetUntagged(op, qn, msn, mo, last)
	return s
}
