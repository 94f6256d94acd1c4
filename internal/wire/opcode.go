package wire

import "fmt"

// RevID is the revision of the protocol, in the control header and in
// AUTH_PARAMS.
//
// Source: [LWIO §Network Discovery], [OP-14]
const RevID = 0x1001

// magic is the first four bytes of the control header and of AUTH_PARAMS.
//
// Source: [LWIO §Network Discovery], [OP-15]
const magic = "LWIO"

// Opcode is the kind of a client's message.
//
// Source: [LWIO §Network Discovery]
type Opcode uint8

// The opcodes of a client's messages; claim 15 names only the opcodes of files.
//
// Source: [LWIO §Network Discovery], [LWIO claim 15], [OP-1], [OP-2], [OP-99]
const (
	OpRead      Opcode = 0x0
	OpWrite     Opcode = 0x1
	OpVecRead   Opcode = 0x2
	OpVecWrite  Opcode = 0x3
	OpClose     Opcode = 0x4
	OpCancel    Opcode = 0x5
	OpAuth      Opcode = 0x6
	OpRegister  Opcode = 0x7
	OpCredit    Opcode = 0x8
	OpInterrupt Opcode = 0x9
)

// The opcodes of file calls: an extension of this implementation, which AUTH negotiates (option 0x84).
//
// Source: [OP-116]
const (
	OpLock    Opcode = 0x80
	OpUnlock  Opcode = 0x81
	OpSync    Opcode = 0x82
	OpSetSize Opcode = 0x83
	OpStat    Opcode = 0x84
)

// OpLookup is the file call of the extension of names.
//
// Source: [OP-118]
const OpLookup Opcode = 0x85

var fileCallNames = [...]string{"LOCK", "UNLOCK", "SYNC", "SETSIZE", "STAT", "LOOKUP"}

var opcodeNames = [...]string{
	OpRead: "READ", OpWrite: "WRITE", OpVecRead: "VEC_READ", OpVecWrite: "VEC_WRITE",
	OpClose: "CLOSE", OpCancel: "CANCEL", OpAuth: "AUTH", OpRegister: "REGISTER",
	OpCredit: "CREDIT", OpInterrupt: "INTERRUPT",
}

// String returns the name as the protocol text spells it.
func (o Opcode) String() string {
	switch {
	case o.Known():
		return opcodeNames[o]
	case o.FileCall():
		return fileCallNames[o-OpLock]
	}
	return fmt.Sprintf("opcode 0x%02X", uint8(o))
}

// Known reports whether the protocol has the opcode.
func (o Opcode) Known() bool { return int(o) < len(opcodeNames) }

// FileCall reports whether the message is a file call: LOCK, UNLOCK, SYNC, SETSIZE, STAT or LOOKUP.
//
// Source: [OP-116], [OP-118]
func (o Opcode) FileCall() bool { return o >= OpLock && o <= OpLookup }

// Describes reports whether the answer is a StatInfo: STAT and LOOKUP.
//
// Source: [OP-116], [OP-118]
func (o Opcode) Describes() bool { return o == OpStat || o == OpLookup }

// IO reports whether the message transfers file data; the others are control
// messages and file calls.
//
// Source: [LWIO claim 15]
func (o Opcode) IO() bool { return o <= OpVecWrite }

// Vectored reports whether the header has NumPages and PageSize where others have
// DataMh.
//
// Source: [OP-25]
func (o Opcode) Vectored() bool { return o == OpVecRead || o == OpVecWrite }

// The flags of a client's message.
//
// Source: [LWIO §Network Discovery], [LWIO claim 17], [LWIO claim 19], [OP-3], [OP-92h]
const (
	// FlagInterrupt asks for a status response by Send; without it the server
	// writes a status block.
	FlagInterrupt uint8 = 0x80
	// FlagControl marks the INTERRUPT message; receivers ignore it.
	FlagControl uint8 = 0x40
	// FlagCollapse: all pages of a VEC_WRITE are the same and one was sent.
	FlagCollapse uint8 = 0x20
	// FlagShared asks for a shared lock; only LOCK has it. [OP-116]
	FlagShared uint8 = 0x10
	// flagsKnown are the flags of VEC_WRITE.
	flagsKnown = FlagInterrupt | FlagControl | FlagCollapse
)

// Marker is the value of the header's Marker in every message; receivers ignore
// it.
//
// Source: [LWIO §Read], [OP-23]
const Marker uint8 = 0xFF
