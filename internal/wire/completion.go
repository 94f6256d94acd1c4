package wire

// Completion says how a message of I/O is to be completed: by a status response
// that carries Cookie, or, with Polling, by a status block at IosVa.
//
// Source: [LWIO §I/O Processing], [LWIO claim 18], [OP-24], [OP-95]
type Completion struct {
	// Polling asks for a status block.
	Polling bool
	// Cookie is that of the status response; not 0, because that is the cookie of
	// a change of credits. [OP-73]
	Cookie uint64
	// ImmediateCookie may come back as the immediate data of a read instead of a
	// status response; unused by writes. [OP-85]
	ImmediateCookie uint32
	// IosMh and IosVa are where the status block goes, in 8 bytes that are aligned
	// to 8. [OP-89]
	IosMh uint32
	IosVa uint64
}

// io is the header of a message that transfers file bytes.
//
// Source: [OP-23], [OP-26]
func (c Completion) io(op Opcode, fid uint16, length uint32, offset uint64) Header {
	h := Header{Length: length, Opcode: op, Marker: Marker, Fid: fid, Offset: offset}
	if c.Polling {
		h.IosMh, h.IosVa = c.IosMh, c.IosVa
		return h
	}
	h.Flags, h.Cookie = FlagInterrupt, c.Cookie
	if op == OpRead || op == OpVecRead {
		h.ImmediateCookie = c.ImmediateCookie
	}
	return h
}
