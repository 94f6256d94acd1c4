package smbwire

const (
	oplockBreakFixed = 24
	leaseAckFixed    = 36
)

// OplockBreak is the notification of a broken oplock, the client's acknowledgement, and the
// server's response to that.
//
// Source: [MS-SMB2 2.2.23.1], [MS-SMB2 2.2.24.1], [MS-SMB2 2.2.25.1]
type OplockBreak struct {
	OplockLevel uint8
	FileID      FileID
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

// DecodeLeaseAck decodes a body.
func DecodeLeaseAck(body []byte) (LeaseAck, error) {
	if err := checkBody("lease break acknowledgement", body, leaseAckFixed, leaseAckFixed); err != nil {
		return LeaseAck{}, err
	}
	return LeaseAck{Flags: le.Uint32(body[4:]), LeaseKey: [16]byte(body[8:24]), LeaseState: le.Uint32(body[24:])}, nil
}
