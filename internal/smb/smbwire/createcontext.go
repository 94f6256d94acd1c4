package smbwire

// Names of create contexts.
//
// Source: [MS-SMB2 2.2.13.2]
const (
	CreateContextMaximalAccess     = "MxAc"
	CreateContextQueryOnDiskID     = "QFid"
	CreateContextDurable           = "DHnQ"
	CreateContextDurableReconnect  = "DHnC"
	CreateContextDurableV2         = "DH2Q"
	CreateContextDurableV2Connect  = "DH2C"
	CreateContextExtendedAttribute = "ExtA"
	CreateContextTimewarp          = "TWrp"
	CreateContextLease             = "RqLs"
	// CreateContextWhole begins a message that is executed up to its first failure. It belongs to this
	// implementation: docs/protocol.md, Whole files.
	CreateContextWhole       = "\x9B\x1E\x5D\x0C\x43\xF7\x4E\x28\xA6\x30\xD2\x85\x7C\x19\xE4\x6A"
	CreateContextAppInstance = "\x45\xBC\xA6\x6A\xEF\xA7\xF7\x4A\x90\x08\xFA\x46\x2E\x14\x4D\x74"
)

const createContextFixed = 16

// CreateContext is one context of CREATE. A receiver ignores unknown contexts.
//
// Source: [MS-SMB2 2.2.13.2]
type CreateContext struct {
	// Name is four bytes, or 16 for some.
	Name string
	Data []byte
}

// appendCreateContexts appends the list behind the body that begins at start, and writes
// its offset and length at field.
func appendCreateContexts(b []byte, start, field int, list []CreateContext) []byte {
	b = pad8(b, start)
	first := len(b)
	for i, c := range list {
		at := len(b)
		b = appendZeros(b, createContextFixed)
		le.PutUint16(b[at+4:], createContextFixed)
		le.PutUint16(b[at+6:], uint16(len(c.Name)))
		b = append(b, c.Name...)
		if len(c.Data) > 0 {
			b = pad8(b, at)
			le.PutUint16(b[at+10:], uint16(len(b)-at))
			le.PutUint32(b[at+12:], uint32(len(c.Data)))
			b = append(b, c.Data...)
		}
		if i < len(list)-1 {
			b = pad8(b, at)
			le.PutUint32(b[at:], uint32(len(b)-at))
		}
	}
	le.PutUint32(b[field:], uint32(HeaderSize+first-start))
	le.PutUint32(b[field+4:], uint32(len(b)-first))
	return b
}

// decodeCreateContexts decodes the list with the offset and length at the start of field.
func decodeCreateContexts(structure string, body []byte, fixed int, field []byte) ([]CreateContext, error) {
	const what = "CreateContexts"
	b, err := span(structure, what, body, fixed, le.Uint32(field), le.Uint32(field[4:]))
	if err != nil || b == nil {
		return nil, err
	}
	if le.Uint32(field)%8 != 0 {
		return nil, fault(structure, what, ErrOffset)
	}
	var list []CreateContext
	for {
		if len(b) < createContextFixed {
			return nil, fault(structure, what, ErrShort)
		}
		one, next := b, le.Uint32(b)
		if next != 0 {
			if next%8 != 0 || next < createContextFixed || uint64(next) > uint64(len(b)) {
				return nil, fault(structure, what, ErrOffset)
			}
			one = b[:next]
		}
		c, err := decodeCreateContext(structure, one)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		if next == 0 {
			return list, nil
		}
		b = b[next:]
	}
}

func decodeCreateContext(structure string, b []byte) (CreateContext, error) {
	nameOff, nameLen := int(le.Uint16(b[4:])), uint32(le.Uint16(b[6:]))
	dataOff, dataLen := int(le.Uint16(b[10:])), le.Uint32(b[12:])
	if nameLen < 4 || nameOff < createContextFixed || dataLen > 0 && dataOff < createContextFixed {
		return CreateContext{}, fault(structure, "CreateContexts", ErrOffset)
	}
	name, err := rest(structure, "CreateContexts", b, nameOff, nameLen)
	if err != nil {
		return CreateContext{}, err
	}
	data, err := rest(structure, "CreateContexts", b, dataOff, dataLen)
	return CreateContext{Name: string(name), Data: data}, err
}

// MaximalAccess is the data of CreateContextMaximalAccess in a response.
//
// Source: [MS-SMB2 2.2.14.2.5]
type MaximalAccess struct {
	Status uint32
	Access uint32
}

// AppendTo appends the data.
func (m *MaximalAccess) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, m.Status)
	return le.AppendUint32(b, m.Access)
}

// OnDiskID is the data of CreateContextQueryOnDiskID in a response.
//
// Source: [MS-SMB2 2.2.14.2.9]
type OnDiskID struct {
	FileID, VolumeID uint64
}

const onDiskIDSize = 32

// AppendTo appends the data.
func (o *OnDiskID) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, o.FileID)
	b = le.AppendUint64(b, o.VolumeID)
	return appendZeros(b, 16)
}

// DecodeOnDiskID decodes the data.
func DecodeOnDiskID(b []byte) (OnDiskID, error) {
	if len(b) < onDiskIDSize {
		return OnDiskID{}, fault("on-disk id context", "", ErrShort)
	}
	return OnDiskID{FileID: le.Uint64(b), VolumeID: le.Uint64(b[8:])}, nil
}
