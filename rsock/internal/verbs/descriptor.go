package verbs

import (
	"encoding/binary"

	"lwio/rdma"
)

// DescriptorSize is the size of the descriptors of this package, in bytes.
const DescriptorSize = 24

// descriptorVersion is the first byte of a descriptor.
const descriptorVersion = 1

// descriptor names memory of the peer. On the wire it has little-endian numbers:
// version (1 byte), access (1), zero (2), token (4), address (8), length (8).
//
// Source: [WSD §2.3], [WSD §6]
type descriptor struct {
	access Access
	at     rdma.RemoteAddr
	length uint64
}

// appendTo appends the descriptor to b.
func (d *descriptor) appendTo(b []byte) []byte {
	b = append(b, descriptorVersion, byte(d.access), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(d.at.Token))
	b = binary.LittleEndian.AppendUint64(b, d.at.Addr)
	return binary.LittleEndian.AppendUint64(b, d.length)
}

// decodeDescriptor decodes a descriptor from the peer. ok is false if it is invalid.
func decodeDescriptor(b []byte) (d descriptor, ok bool) {
	if len(b) != DescriptorSize || b[0] != descriptorVersion || b[2] != 0 || b[3] != 0 {
		return descriptor{}, false
	}
	d = descriptor{
		access: Access(b[1]),
		at: rdma.RemoteAddr{
			Token: rdma.RemoteToken(binary.LittleEndian.Uint32(b[4:])),
			Addr:  binary.LittleEndian.Uint64(b[8:]),
		},
		length: binary.LittleEndian.Uint64(b[16:]),
	}
	return d, d.access.valid() && d.at.Addr+d.length >= d.at.Addr
}
