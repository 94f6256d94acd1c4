package wire

import (
	"math"

	"lwio/internal/ntstatus"
)

// Limits bound the messages that a server accepts.
type Limits struct {
	// MaxRecvBufferSize is the most bytes after the header of one message. [OP-61]
	MaxRecvBufferSize uint32
	// MaxRdmaWindowSize is the most bytes of one READ or of one collapsed
	// VEC_WRITE. [OP-60], [OP-78]
	MaxRdmaWindowSize uint32
	// FileCalls: the connection has the extension of file calls. Without it their opcodes are unknown. [OP-116]
	FileCalls bool
	// Names: the connection has the extension of names. Without it LOOKUP is unknown. [OP-118]
	Names bool
}

// takes reports whether the message is a file call that the connection has.
func (l *Limits) takes(o Opcode) bool {
	return l.FileCalls && o.FileCall() && (l.Names || o != OpLookup)
}

// Counts reports whether a message with the opcode counts as an I/O request: READ, WRITE, VEC_READ,
// VEC_WRITE and file calls may be polled, and count in INTERRUPT.
//
// Source: [OP-93a], [OP-116]
func (l *Limits) Counts(o Opcode) bool { return o.IO() || l.takes(o) }

// Check checks a client's header for the server. received is the size of the whole message.
// CheckRegions and CheckCollapse check the conditions that depend on the file. The caller checks
// that AUTH is the first message and the only AUTH.
//
// Errors: *Error. Sizes that disagree and messages that cannot be answered end the connection;
// bad values are answered.
//
// Source: [LWIO §I/O Processing], [OP-27], [OP-63], [OP-92e], [OP-92h], [OP-106]
func (h *Header) Check(received int, l Limits) error {
	if received < HeaderSize || int64(received) > int64(l.MaxRecvBufferSize)+HeaderSize {
		return cut(h.Opcode.String(), "a message of %d bytes", received)
	}
	switch h.Opcode {
	case OpRead:
		return h.checkRead(received, l)
	case OpWrite:
		return h.checkWrite(received, l)
	case OpVecRead:
		return h.checkVecRead(received)
	case OpVecWrite:
		if h.Flags&FlagCollapse != 0 {
			return h.checkCollapse(received, l)
		}
		return h.checkWrite(received, l)
	}
	if l.takes(h.Opcode) {
		return h.checkFileCall(received)
	}
	if h.Opcode.Known() {
		return h.checkControl(received)
	}
	if !h.Interrupt() {
		return cut(h.Opcode.String(), "unknown, and no INTERRUPT flag")
	}
	return refuse(h.Opcode.String(), ntstatus.InvalidDeviceRequest, "unknown")
}

// checkRange checks that the bytes can be part of a file.
//
// Source: [OP-92c]
func (h *Header) checkRange() error {
	if h.Offset > math.MaxInt64-uint64(h.Length) {
		return refuse(h.Opcode.String(), ntstatus.InvalidParameter, "%d bytes at offset %#x", h.Length, h.Offset)
	}
	return nil
}
