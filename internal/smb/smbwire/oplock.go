package smbwire

const (
	oplockBreakFixed = 24
	leaseAckFixed    = 36
	leaseBreakFixed  = 44
)

// Levels of oplocks, in CREATE and OPLOCK_BREAK.
//
// Source: [MS-SMB2 2.2.13]
const (
	OplockNone      uint8 = 0x00
	OplockLevelII   uint8 = 0x01
	OplockExclusive uint8 = 0x08
	OplockBatch     uint8 = 0x09
	// OplockLease stands for a lease, which a context describes.
	OplockLease uint8 = 0xFF
)

// OplockBreak is the notification of a broken oplock, the client's acknowledgement, and the
// server's response to that.
//
// Source: [MS-SMB2 2.2.23.1], [MS-SMB2 2.2.24.1], [MS-SMB2 2.2.25.1]
type OplockBreak struct {
	OplockLevel uint8
	FileID      FileID
}

// AppendTo appends the body.
func (r *OplockBreak) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, oplockBreakFixed)
	b = append(b, r.OplockLevel)
	b = appendZeros(b, 5)
	return r.FileID.appendTo(b)
}

// DecodeOplockBreak decodes a body.
//
// Errors: ErrStructureSize also for the message of a lease.
func DecodeOplockBreak(body []byte) (OplockBreak, error) {
	if err := checkBody("OPLOCK_BREAK", body, oplockBreakFixed, oplockBreakFixed); err != nil {
		return OplockBreak{}, err
	}
	return OplockBreak{OplockLevel: body[2], FileID: fileID(body[8:])}, nil
}

// LeaseAck is the client's acknowledgement of a broken lease, and the server's response to
// that.
//
// Source: [MS-SMB2 2.2.24.2], [MS-SMB2 2.2.25.2]
type LeaseAck struct {
	Flags      uint32
	LeaseKey   [16]byte
	LeaseState uint32
}

// AppendTo appends the body.
func (r *LeaseAck) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, leaseAckFixed)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, r.Flags)
	b = append(b, r.LeaseKey[:]...)
	b = le.AppendUint32(b, r.LeaseState)
	return appendZeros(b, 8)
}

// DecodeLeaseAck decodes a body.
func DecodeLeaseAck(body []byte) (LeaseAck, error) {
	if err := checkBody("lease break acknowledgement", body, leaseAckFixed, leaseAckFixed); err != nil {
		return LeaseAck{}, err
	}
	return LeaseAck{Flags: le.Uint32(body[4:]), LeaseKey: [16]byte(body[8:24]), LeaseState: le.Uint32(body[24:])}, nil
}

// LeaseBreakAckRequired in the flags of a lease break notification asks for an acknowledgement.
//
// Source: [MS-SMB2 2.2.23.2]
const LeaseBreakAckRequired uint32 = 0x00000001

// LeaseBreak is the notification of a broken lease.
//
// Source: [MS-SMB2 2.2.23.2]
type LeaseBreak struct {
	// NewEpoch is 0 for a lease of version 1.
	NewEpoch               uint16
	Flags                  uint32
	LeaseKey               [16]byte
	CurrentState, NewState uint32
}

// AppendTo appends the body.
func (r *LeaseBreak) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, leaseBreakFixed)
	b = le.AppendUint16(b, r.NewEpoch)
	b = le.AppendUint32(b, r.Flags)
	b = append(b, r.LeaseKey[:]...)
	b = le.AppendUint32(b, r.CurrentState)
	b = le.AppendUint32(b, r.NewState)
	return appendZeros(b, 12)
}
