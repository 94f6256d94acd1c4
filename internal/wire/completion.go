package wire

// CompleteBySend asks for a status response with that cookie. The cookie is not 0, because
// 0 means a change of credits [OP-73]. A READ or VEC_READ may be completed by the immediate
// data of an RDMA Write instead, which is then immediate [OP-85]; other messages ignore it.
//
// Source: [LWIO §I/O Processing], [LWIO claim 18], [OP-24], [OP-95]
func (h *Header) CompleteBySend(cookie uint64, immediate uint32) {
	h.Flags |= FlagInterrupt
	h.Cookie = cookie
	if h.Opcode == OpRead || h.Opcode == OpVecRead {
		h.ImmediateCookie = immediate
	}
}

// CompleteByWrite asks for a status block, 8 bytes at a remote address that is aligned to 8.
// Only READ, WRITE, VEC_READ and VEC_WRITE may be completed so.
//
// Source: [LWIO §I/O Processing], [LWIO claim 18], [OP-24], [OP-89], [OP-95]
func (h *Header) CompleteByWrite(iosVa uint64, iosMh uint32) {
	h.Flags &^= FlagInterrupt
	h.IosVa, h.IosMh = iosVa, iosMh
}
