package wire

import (
	"encoding/binary"

	"lwio/internal/ntstatus"
)

// IOStatusBlockSize is the size of a status block, in bytes.
const IOStatusBlockSize = 8

// IOStatusBlock completes a request without FlagInterrupt. The server writes it by RDMA.
//
//	0 Information u32   4 Status u32
//
// Source: [LWIO §I/O Processing], [LWIO §Connection Authentication], [OP-89], [OP-95]
type IOStatusBlock struct {
	// Information is the number of bytes read or written.
	Information uint32
	// Status is an NTSTATUS.
	Status uint32
}

// PendingBlock is the content of a client's status block while the request is in flight: a
// value that no server writes.
//
// Source: [OP-89], [OP-90]
func PendingBlock() IOStatusBlock {
	return IOStatusBlock{Information: 0xFFFFFFFF, Status: uint32(ntstatus.Pending)}
}

// Pending reports whether the request is not complete.
func (s IOStatusBlock) Pending() bool { return s.Status == uint32(ntstatus.Pending) }

// AppendTo appends the 8 bytes of the block to b.
func (s IOStatusBlock) AppendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, s.Information)
	return binary.LittleEndian.AppendUint32(b, s.Status)
}

// Uint64 returns the block as the word of its 8 bytes in memory, for atomic stores.
//
// Source: [OP-89]
func (s IOStatusBlock) Uint64() uint64 {
	var b [IOStatusBlockSize]byte
	return binary.NativeEndian.Uint64(s.AppendTo(b[:0]))
}

// IOStatusBlockFromUint64 returns the block whose 8 bytes in memory are the word v, for atomic
// loads.
//
// Source: [OP-89]
func IOStatusBlockFromUint64(v uint64) IOStatusBlock {
	var b [IOStatusBlockSize]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return IOStatusBlock{
		Information: binary.LittleEndian.Uint32(b[:]),
		Status:      binary.LittleEndian.Uint32(b[4:]),
	}
}
