package wire

// CreditOffset is the Offset of a CREDIT message: n in the upper 32 bits. n is -N
// to -1 for the credits that are given up, or the number of granted credits that
// the client does not use.
//
// Source: [LWIO §Credits], [LWIO claim 24], [OP-70]
func CreditOffset(n int32) uint64 { return uint64(int64(n) << 32) }

// CreditCount is the number in the Offset of a CREDIT message; the lower 32 bits
// are ignored.
//
// Source: [LWIO §Credits], [OP-70]
func CreditCount(offset uint64) int32 { return int32(offset >> 32) }

// NewCredit is a CREDIT message; for n see CreditOffset.
//
// Source: [LWIO §Credits], [OP-26], [OP-70], [OP-71]
func NewCredit(cookie uint64, n int32) Header {
	h := control(OpCredit, cookie, HeaderSize)
	h.Offset = CreditOffset(n)
	return h
}

// CreditStatus is the status with which a server answers a CREDIT message:
// NotifyCredit, so that the client retires the credit, if one is given up, else 0.
//
// Source: [LWIO §Credits], [LWIO claim 24], [OP-67]
func CreditStatus(n int32) uint32 {
	if n < 0 {
		return NotifyCredit
	}
	return 0
}
