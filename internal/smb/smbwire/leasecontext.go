package smbwire

// The parts of a lease state.
//
// Source: [MS-SMB2 2.2.13.2.8]
const (
	LeaseRead   uint32 = 0x01
	LeaseHandle uint32 = 0x02
	LeaseWrite  uint32 = 0x04
)

// Flags of a lease.
//
// Source: [MS-SMB2 2.2.14.2.10], [MS-SMB2 2.2.14.2.11]
const (
	// LeaseBreaking in a response: the lease is being broken.
	LeaseBreaking uint32 = 0x00000002
	// LeaseParentKeySet: the parent key is valid.
	LeaseParentKeySet uint32 = 0x00000004
)

const (
	leaseSize   = 32
	leaseV2Size = 52
)

// Lease is the data of CreateContextLease in a request, and in its response. The two versions differ in
// length.
//
// Source: [MS-SMB2 2.2.13.2.8], [MS-SMB2 2.2.13.2.10], [MS-SMB2 2.2.14.2.10], [MS-SMB2 2.2.14.2.11]
type Lease struct {
	Key   [16]byte
	State uint32
	Flags uint32
	// V2 says that the lease has version 2. Version 1 has no fields of it.
	V2        bool
	ParentKey [16]byte
	Epoch     uint16
}

// AppendTo appends the data.
func (l *Lease) AppendTo(b []byte) []byte {
	b = append(b, l.Key[:]...)
	b = le.AppendUint32(b, l.State)
	b = le.AppendUint32(b, l.Flags)
	b = appendZeros(b, 8)
	if !l.V2 {
		return b
	}
	b = append(b, l.ParentKey[:]...)
	b = le.AppendUint16(b, l.Epoch)
	return appendZeros(b, 2)
}

// DecodeLease decodes the data.
//
// Errors: ErrStructureSize for the length of neither version.
func DecodeLease(b []byte) (Lease, error) {
	if len(b) != leaseSize && len(b) != leaseV2Size {
		return Lease{}, fault("lease context", "", ErrStructureSize)
	}
	l := Lease{Key: [16]byte(b), State: le.Uint32(b[16:]), Flags: le.Uint32(b[20:])}
	if len(b) == leaseV2Size {
		l.V2, l.ParentKey, l.Epoch = true, [16]byte(b[32:]), le.Uint16(b[48:])
	}
	return l, nil
}
