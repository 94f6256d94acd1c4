package iwarp

import (
	"encoding/binary"
	"errors"
)

// Sizes of the DDP headers, in bytes, the two control bytes included.
//
// Source: [RFC 5041 §4.2], [RFC 5041 §4.3]
const (
	taggedSize   = 14
	untaggedSize = 18
)

// The bits of the DDP control byte.
const (
	ddpTagged      = 0x80
	ddpLast        = 0x40
	ddpVersionMask = 0x03
	ddpVersion     = 0x01
)

// The queues of untagged messages that RDMAP uses.
//
// Source: [RFC 5040 §5], [RFC 7306 §5]
const (
	queueSend           = 0
	queueRequest        = 1
	queueTerminate      = 2
	queueAtomicResponse = 3
)

// errSegmentShort says that a ULPDU is too short for the header it begins.
var errSegmentShort = errors.New("DDP segment shorter than its header")

// segment is the header of a DDP segment with the control byte of RDMAP.
type segment struct {
	ddp, rdmap byte // the two control bytes, as on the wire
	// stag is the STag of a tagged segment; of an untagged one the 32 bits that
	// belong to RDMAP, which are the STag to invalidate or 0.
	stag uint32
	to   uint64 // tagged
	// queue, message sequence number and message offset of an untagged segment.
	qn, msn, mo uint32
}

func (s *segment) tagged() bool    { return s.ddp&ddpTagged != 0 }
func (s *segment) last() bool      { return s.ddp&ddpLast != 0 }
func (s *segment) versionOK() bool { return s.ddp&ddpVersionMask == ddpVersion }
func (s *segment) opcode() opcode  { return opcode(s.rdmap & rdmapOpcodeMask) }
func (s *segment) rdmapOK() bool   { return s.rdmap&rdmapVersionMask == rdmapVersion }

// size is the number of header bytes.
func (s *segment) size() int {
	if s.tagged() {
		return taggedSize
	}
	return untaggedSize
}

// appendTo appends the header.
func (s *segment) appendTo(b []byte) []byte {
	b = append(b, s.ddp, s.rdmap)
	b = binary.BigEndian.AppendUint32(b, s.stag)
	if s.tagged() {
		return binary.BigEndian.AppendUint64(b, s.to)
	}
	b = binary.BigEndian.AppendUint32(b, s.qn)
	b = binary.BigEndian.AppendUint32(b, s.msn)
	return binary.BigEndian.AppendUint32(b, s.mo)
}

// decode reads the header at the start of a ULPDU. The versions are not looked at: what is
// wrong with them is an error of another layer.
//
// Segments are filled in where they stay: the processor waits where a copy follows the
// writing of the parts.
func (s *segment) decode(b []byte) error {
	if len(b) < taggedSize || b[0]&ddpTagged == 0 && len(b) < untaggedSize {
		return errSegmentShort
	}
	s.ddp, s.rdmap, s.stag = b[0], b[1], binary.BigEndian.Uint32(b[2:])
	if b[0]&ddpTagged != 0 {
		s.to = binary.BigEndian.Uint64(b[6:])
		s.qn, s.msn, s.mo = 0, 0, 0
		return nil
	}
	s.to = 0
	s.qn = binary.BigEndian.Uint32(b[6:])
	s.msn = binary.BigEndian.Uint32(b[10:])
	s.mo = binary.BigEndian.Uint32(b[14:])
	return nil
}

// setTagged makes it the header of a part of an RDMA Write.
func (s *segment) setTagged(op opcode, stag uint32, to uint64, last bool) {
	s.ddp, s.rdmap = ddpTagged|controlByte(last), rdmapVersion|byte(op)
	s.stag, s.to, s.qn, s.msn, s.mo = stag, to, 0, 0, 0
}

// setUntagged makes it the header of a part of an untagged message.
func (s *segment) setUntagged(op opcode, qn, msn, mo uint32, last bool) {
	s.ddp, s.rdmap = controlByte(last), rdmapVersion|byte(op)
	s.stag, s.to, s.qn, s.msn, s.mo = 0, 0, qn, msn, mo
}

// controlByte is the DDP control byte of an untagged segment.
func controlByte(last bool) byte {
	if last {
		return ddpVersion | ddpLast
	}
	return ddpVersion
}

// taggedSegment is one that setTagged has made.
func taggedSegment(op opcode, stag uint32, to uint64, last bool) (s segment) {
	s.setTagged(op, stag, to, last)
	return s
}

// untaggedSegment is one that setUntagged has made.
func untaggedSegment(op opcode, qn, msn, mo uint32, last bool) (s segment) {
	s.setUntagged(op, qn, msn, mo, last)
	return s
}
