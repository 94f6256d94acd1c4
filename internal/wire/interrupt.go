package wire

// NewInterrupt makes an INTERRUPT message: a request for a status response once an I/O
// request has completed. Its Credits are not a hint but count the requests that are posted
// and whose completion the client has not seen, at most 255.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-2], [OP-93a], [OP-93f]
func NewInterrupt(outstanding int) Header {
	h := control(OpInterrupt, HeaderSize)
	h.Flags |= FlagControl
	h.SetPending(outstanding)
	return h
}
