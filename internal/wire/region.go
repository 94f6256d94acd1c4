package wire

import "encoding/binary"

// RDMARegionSize is the size of a region, in bytes.
const RDMARegionSize = 16

// RDMARegion is a place in a client's memory that the server may write.
//
//	0 DataVa u64   8 DataMh u32   12 Length u32
//
// Source: [LWIO §Vectored Read], [OP-18], [OP-19], [OP-84]
type RDMARegion struct {
	// DataVa is the remote address, DataMh the remote token.
	DataVa uint64
	DataMh uint32
	// Length is in bytes.
	Length uint32
}

// AppendTo appends the 16 bytes of the region to b.
func (r RDMARegion) AppendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.DataVa)
	b = binary.LittleEndian.AppendUint32(b, r.DataMh)
	return binary.LittleEndian.AppendUint32(b, r.Length)
}

// DecodeRDMARegion decodes a region.
//
// Errors: *Error, which ends the connection, unless b has exactly 16 bytes.
func DecodeRDMARegion(b []byte) (RDMARegion, error) {
	if len(b) != RDMARegionSize {
		return RDMARegion{}, wrongSize("RDMA region", len(b), RDMARegionSize)
	}
	return RDMARegion{
		DataVa: binary.LittleEndian.Uint64(b),
		DataMh: binary.LittleEndian.Uint32(b[8:]),
		Length: binary.LittleEndian.Uint32(b[12:]),
	}, nil
}
