package wire

// FileLock is a byte-range lock in a LOCK or an UNLOCK message.
//
//	16 Offset u64   24 Length u64   32 Sequence u32
//
// Source: [OP-116]
type FileLock struct {
	// Offset and Length are the range, in bytes.
	Offset, Length uint64
	// Sequence is the lock sequence of SMB, by which a repeated request is done once; 0 for none. The number is
	// in the low four bits, and the index above.
	Sequence uint32
}

// NewLock makes a LOCK message: the server locks the range, or answers LOCK_NOT_GRANTED if another lock
// excludes that. It never waits.
//
// Source: [OP-116]
func NewLock(fid uint16, l FileLock, shared bool) Header {
	h := l.header(OpLock, fid)
	if shared {
		h.Flags |= FlagShared
	}
	return h
}

// NewUnlock makes an UNLOCK message: the server ends one lock of exactly this range.
//
// Source: [OP-116]
func NewUnlock(fid uint16, l FileLock) Header { return l.header(OpUnlock, fid) }

func (l FileLock) header(op Opcode, fid uint16) Header {
	h := fileCall(op, fid)
	h.Offset, h.DataVa, h.DataMh = l.Offset, l.Length, l.Sequence
	return h
}

// FileLock returns the lock that a LOCK or an UNLOCK message names.
func (h *Header) FileLock() FileLock {
	return FileLock{Offset: h.Offset, Length: h.DataVa, Sequence: h.DataMh}
}
