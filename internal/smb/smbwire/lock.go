package smbwire

const (
	lockRequestFixed = 24
	lockElementSize  = 24
)

// Flags of a lock.
//
// Source: [MS-SMB2 2.2.26.1]
const (
	LockShared          uint32 = 0x01
	LockExclusive       uint32 = 0x02
	LockUnlock          uint32 = 0x04
	LockFailImmediately uint32 = 0x10
)

// LockBuckets is the number of buckets for lock sequence numbers of an open; the first is 1.
//
// Source: [MS-SMB2 2.2.26]
const LockBuckets = 64

// LockSequence returns the field Sequence of a LockRequest. A request is a repetition if the
// last successful request with the same bucket has the same number. bucket 0 has no meaning. Only the
// lowest four bits of number are sent.
//
// Source: [MS-SMB2 2.2.26]
func LockSequence(bucket uint32, number uint8) uint32 { return bucket<<4 | uint32(number&0xF) }

// LockRequest locks or unlocks byte ranges. The response is Empty.
//
// Source: [MS-SMB2 2.2.26]
type LockRequest struct {
	// Sequence is the result of LockSequence, or 0.
	Sequence uint32
	FileID   FileID
	Locks    []LockElement
}

// Bucket returns the bucket of Sequence, and the number in it.
func (r *LockRequest) Bucket() (bucket uint32, number uint8) {
	return r.Sequence >> 4, uint8(r.Sequence & 0xF)
}

// LockElement is one range.
//
// Source: [MS-SMB2 2.2.26.1]
type LockElement struct {
	Offset, Length uint64
	Flags          uint32
}

// AppendTo appends the body.
func (r *LockRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, lockRequestFixed+lockElementSize)
	b = le.AppendUint16(b, uint16(len(r.Locks)))
	b = le.AppendUint32(b, r.Sequence)
	b = r.FileID.appendTo(b)
	for _, l := range r.Locks {
		b = le.AppendUint64(b, l.Offset)
		b = le.AppendUint64(b, l.Length)
		b = le.AppendUint32(b, l.Flags)
		b = le.AppendUint32(b, 0)
	}
	return b
}

// DecodeLockRequest decodes a body. There must be at least one range.
func DecodeLockRequest(body []byte) (LockRequest, error) {
	const name = "LOCK request"
	if err := checkBody(name, body, lockRequestFixed+lockElementSize, lockRequestFixed+lockElementSize); err != nil {
		return LockRequest{}, err
	}
	n := int(le.Uint16(body[2:]))
	switch {
	case n == 0:
		return LockRequest{}, fault(name, "LockCount", ErrValue)
	case len(body) < lockRequestFixed+n*lockElementSize:
		return LockRequest{}, fault(name, "LockCount", ErrShort)
	}
	r := LockRequest{Sequence: le.Uint32(body[4:]), FileID: fileID(body[8:]), Locks: make([]LockElement, n)}
	for i := range r.Locks {
		l := body[lockRequestFixed+i*lockElementSize:]
		r.Locks[i] = LockElement{Offset: le.Uint64(l), Length: le.Uint64(l[8:]), Flags: le.Uint32(l[16:])}
	}
	return r, nil
}
