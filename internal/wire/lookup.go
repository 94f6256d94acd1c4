package wire

// MaxLookup is the longest name of a LOOKUP, in bytes.
//
// Source: [OP-118]
const MaxLookup = 4096

// NewLookup makes a LOOKUP message: a StatInfo of a file or a directory goes to target, whose Length is at least
// StatInfoSize. fid is of a directory. The body is the name within it: UTF-8, with slashes between the elements,
// of at most MaxLookup bytes. No name is the directory itself.
//
// Source: [OP-118]
func NewLookup(fid uint16, target RDMARegion) Header {
	h := NewStat(fid, target)
	h.Opcode = OpLookup
	return h
}
