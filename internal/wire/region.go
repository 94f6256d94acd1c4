package wire

import "encoding/binary"

// RDMARegionSize is the size of a region, in bytes.
const RDMARegionSize = 16

// RDMARegion is memory of the client that the server may write.
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

// RegionAt decodes the i-th region of the body of a VEC_READ message.
// Precondition: Header.Check accepted the message.
func RegionAt(body []byte, i int) RDMARegion {
	b := body[i*RDMARegionSize:][:RDMARegionSize]
	return RDMARegion{
		DataVa: binary.LittleEndian.Uint64(b),
		DataMh: binary.LittleEndian.Uint32(b[8:]),
		Length: binary.LittleEndian.Uint32(b[12:]),
	}
}
