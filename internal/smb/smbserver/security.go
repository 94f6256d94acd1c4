package smbserver

import "encoding/binary"

// Parts of a security descriptor that a client may ask for.
//
// Source: [MS-SMB2 2.2.37]
const (
	securityOwner = 0x1
	securityGroup = 0x2
	securityDACL  = 0x4
	securitySACL  = 0x8
)

// Control bits of a security descriptor.
//
// Source: [MS-DTYP 2.4.6]
const (
	sdDACLPresent  = 0x0004
	sdSACLPresent  = 0x0010
	sdSelfRelative = 0x8000
	sdHeadSize     = 20
)

// worldSID is S-1-1-0, the group of all users.
//
// Source: [MS-DTYP 2.4.2.4]
var worldSID = [...]byte{1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}

// securityDescriptor returns a self-relative security descriptor for a file: its owner is
// the group of all users, and its access list allows them the mask. The real rights are
// checked by vfs when a file is opened.
//
// Source: [MS-DTYP 2.4.6], [MS-SMB2 3.3.5.20.3]
func securityDescriptor(parts, mask uint32) []byte {
	b := make([]byte, sdHeadSize, 96)
	control := uint16(sdSelfRelative)
	b[0] = 1
	if parts&securityOwner != 0 {
		binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
		b = append(b, worldSID[:]...)
	}
	if parts&securityGroup != 0 {
		binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
		b = append(b, worldSID[:]...)
	}
	if parts&securitySACL != 0 {
		control |= sdSACLPresent // an empty list: nothing is audited
	}
	if parts&securityDACL != 0 {
		control |= sdDACLPresent
		binary.LittleEndian.PutUint32(b[16:], uint32(len(b)))
		b = appendACL(b, mask)
	}
	binary.LittleEndian.PutUint16(b[2:], control)
	return b
}

// appendACL appends an access list with one entry, which allows all users the mask.
//
// Source: [MS-DTYP 2.4.4.2], [MS-DTYP 2.4.5]
func appendACL(b []byte, mask uint32) []byte {
	const aceSize, aclSize = 8 + len(worldSID), 8 + 8 + len(worldSID)
	b = append(b, 2, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(aclSize))
	b = append(b, 1, 0, 0, 0)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(aceSize))
	b = binary.LittleEndian.AppendUint32(b, mask)
	return append(b, worldSID[:]...)
}
