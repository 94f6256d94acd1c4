package wire

// NotifyCredit is the status of a delta credit message, and of the answer to a CREDIT message
// that gives a credit up.
//
// A delta credit message is a [StatusResponse] with cookie 0 and this status, by which the
// server gives credits or takes them: Information is their number as a signed 32-bit integer,
// above or below 0 and never 0.
//
// Source: [LWIO §Credits], [LWIO claim 24], [OP-4], [OP-29], [OP-72], [OP-73]
const NotifyCredit = 0x1

// CreditCount is the number in the Offset of a CREDIT message. The lower 32 bits are ignored.
//
// Source: [LWIO §Credits], [OP-70]
func (h *Header) CreditCount() int32 { return int32(h.Offset >> 32) }

// NewCredit makes a CREDIT message, with n in the upper 32 bits of Offset. n is -N to -1 for
// the N credits that are given up, or the number of granted credits that the client does not
// use.
//
// Source: [LWIO §Credits], [LWIO claim 24], [OP-26], [OP-70], [OP-71]
func NewCredit(n int32) Header {
	h := control(OpCredit, HeaderSize)
	h.Offset = uint64(int64(n) << 32)
	return h
}

// CreditStatus is the status with which a server answers a CREDIT message:
// NotifyCredit, so that the client retires the credit, if n gives one up, else 0.
//
// Source: [LWIO §Credits], [LWIO claim 24], [OP-67]
func CreditStatus(n int32) uint32 {
	if n < 0 {
		return NotifyCredit
	}
	return 0
}
