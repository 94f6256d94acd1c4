package smbwire

// ContextType is the kind of a negotiate context.
//
// Source: [MS-SMB2 2.2.3.1]
type ContextType uint16

// The negotiate contexts.
const (
	ContextPreauthIntegrity ContextType = 1
	ContextEncryption       ContextType = 2
	ContextNetname          ContextType = 5
	ContextSigning          ContextType = 8
)

// Numbers of algorithms in negotiate contexts.
//
// Source: [MS-SMB2 2.2.3.1.1], [MS-SMB2 2.2.3.1.2], [MS-SMB2 2.2.3.1.7]
const (
	HashSHA512 uint16 = 1

	SigningHMACSHA256 uint16 = 0
	SigningAESCMAC    uint16 = 1
	SigningAESGMAC    uint16 = 2

	CipherAES128CCM uint16 = 1
	CipherAES128GCM uint16 = 2
	CipherAES256CCM uint16 = 3
	CipherAES256GCM uint16 = 4
)

const negotiateContextHeader = 8

// NegotiateContext is one context of a NEGOTIATE message, of any type. Data is
// decoded by the DecodeX of the type.
//
// Source: [MS-SMB2 2.2.3.1]
type NegotiateContext struct {
	Type ContextType
	Data []byte
}

func appendNegotiateContexts(b []byte, start int, list []NegotiateContext) []byte {
	for i, c := range list {
		if i > 0 {
			b = pad8(b, start)
		}
		b = le.AppendUint16(b, uint16(c.Type))
		b = le.AppendUint16(b, uint16(len(c.Data)))
		b = le.AppendUint32(b, 0)
		b = append(b, c.Data...)
	}
	return b
}

func decodeNegotiateContexts(structure string, body []byte, fixed int, offset uint32, count uint16) ([]NegotiateContext, error) {
	const field = "NegotiateContextList"
	if count == 0 {
		return nil, nil
	}
	at := int64(offset) - HeaderSize
	if at < int64(fixed) || at > int64(len(body)) || offset%8 != 0 {
		return nil, fault(structure, field, ErrOffset)
	}
	if int(count) > len(body)/negotiateContextHeader {
		return nil, fault(structure, field, ErrShort)
	}
	list := make([]NegotiateContext, 0, count)
	for b := body[at:]; ; {
		if len(b) < negotiateContextHeader {
			return nil, fault(structure, field, ErrShort)
		}
		n := int(le.Uint16(b[2:]))
		data, err := rest(structure, field, b, negotiateContextHeader, uint32(n))
		if err != nil {
			return nil, err
		}
		list = append(list, NegotiateContext{ContextType(le.Uint16(b)), data})
		if len(list) == int(count) {
			return list, nil
		}
		next := (negotiateContextHeader + n + 7) &^ 7
		if next > len(b) {
			return nil, fault(structure, field, ErrShort)
		}
		b = b[next:]
	}
}

// PreauthIntegrity is the data of ContextPreauthIntegrity.
//
// Source: [MS-SMB2 2.2.3.1.1]
type PreauthIntegrity struct {
	Hashes []uint16
	Salt   []byte
}

// AppendTo appends the data.
func (c *PreauthIntegrity) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, uint16(len(c.Hashes)))
	b = le.AppendUint16(b, uint16(len(c.Salt)))
	b = appendUint16s(b, c.Hashes)
	return append(b, c.Salt...)
}

// DecodePreauthIntegrity decodes the data.
func DecodePreauthIntegrity(b []byte) (PreauthIntegrity, error) {
	const name = "preauth integrity context"
	if len(b) < 4 {
		return PreauthIntegrity{}, fault(name, "", ErrShort)
	}
	n := int(le.Uint16(b))
	if len(b) < 4+2*n {
		return PreauthIntegrity{}, fault(name, "HashAlgorithmCount", ErrShort)
	}
	salt, err := rest(name, "Salt", b, 4+2*n, uint32(le.Uint16(b[2:])))
	return PreauthIntegrity{Hashes: uint16s(b[4:], n), Salt: salt}, err
}

// AppendAlgorithms appends the data of ContextEncryption and ContextSigning: a
// list of algorithms, the preferred one first.
//
// Source: [MS-SMB2 2.2.3.1.2], [MS-SMB2 2.2.3.1.7]
func AppendAlgorithms(b []byte, list ...uint16) []byte {
	b = le.AppendUint16(b, uint16(len(list)))
	return appendUint16s(b, list)
}

// DecodeAlgorithms decodes the data of ContextEncryption and ContextSigning.
func DecodeAlgorithms(b []byte) ([]uint16, error) {
	const name = "algorithm list context"
	if len(b) < 2 {
		return nil, fault(name, "", ErrShort)
	}
	n := int(le.Uint16(b))
	if len(b) < 2+2*n {
		return nil, fault(name, "count", ErrShort)
	}
	return uint16s(b[2:], n), nil
}
