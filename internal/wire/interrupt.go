package wire

// NewInterrupt is an INTERRUPT message: a request for a status response once an
// I/O request has completed. Its Credits are not a hint but count the requests that
// were sent and not seen complete.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-2], [OP-93a], [OP-93f]
func NewInterrupt(cookie uint64, outstanding int) Header {
	h := control(OpInterrupt, cookie, HeaderSize)
	h.Flags |= FlagControl
	h.SetPending(outstanding)
	return h
}
