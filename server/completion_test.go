package server

import (
	"encoding/binary"

	"lwio/internal/wire"
)

// authFixedSize is the size of AUTH_PARAMS before its options, in bytes.
const authFixedSize = 30

// completion is a way to complete a message of I/O: by a status block with Polling, else by a
// status response.
type completion struct {
	Polling         bool
	Cookie          uint64
	ImmediateCookie uint32
	IosMh           uint32
	IosVa           uint64
}

// by sets the completion of h.
func by(h wire.Header, c completion) wire.Header {
	if c.Polling {
		h.CompleteByWrite(c.IosVa, c.IosMh)
	} else {
		h.CompleteBySend(c.Cookie, c.ImmediateCookie)
	}
	return h
}

// statusBlock is the status block in the first 8 bytes of b.
func statusBlock(b []byte) wire.IOStatusBlock {
	return wire.IOStatusBlockFromUint64(binary.NativeEndian.Uint64(b))
}
