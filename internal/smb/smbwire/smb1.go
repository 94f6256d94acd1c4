package smbwire

import "bytes"

const (
	smb1HeaderSize       = 32
	smb1CommandNegotiate = 0x72
	smb1FlagReply        = 0x80
	smb1NoDialect        = 0xFFFF

	dialectSMB2002     = "SMB 2.002"
	dialectSMB2Unknown = "SMB 2.???"
)

// SMB1Negotiate is the relevant part of an SMB 1 negotiation. A client that offers neither
// form of SMB 2 speaks SMB 1 only.
//
// Source: [MS-SMB2 3.3.5.3], [MS-CIFS 2.2.4.52.1], [OP-5c]
type SMB1Negotiate struct {
	// SMB2002 is an offer of dialect 2.0.2.
	SMB2002 bool
	// SMB2Wildcard is an offer to negotiate again in SMB 2.
	SMB2Wildcard bool

	// IDs are the tree, process, user and multiplex ids, for the response.
	IDs [10]byte
}

func appendSMB1Header(b []byte, flags byte, ids [10]byte) []byte {
	b = le.AppendUint32(b, protocolSMB1)
	b = append(b, smb1CommandNegotiate, 0, 0, 0, 0, flags, 0, 0)
	b = append(b, ids[0], ids[1]) // high half of the process id
	b = appendZeros(b, 10)
	return append(b, ids[2:10]...)
}

// DecodeSMB1Negotiate decodes a whole message.
//
// Errors: ErrProtocol if it is no SMB 1 negotiation, ErrShort, ErrValue.
func DecodeSMB1Negotiate(msg []byte) (SMB1Negotiate, error) {
	const name = "SMB 1 negotiation"
	if len(msg) < smb1HeaderSize+3 {
		return SMB1Negotiate{}, fault(name, "", ErrShort)
	}
	if le.Uint32(msg) != protocolSMB1 || msg[4] != smb1CommandNegotiate || msg[smb1HeaderSize] != 0 {
		return SMB1Negotiate{}, fault(name, "", ErrProtocol)
	}
	list, err := rest(name, "ByteCount", msg, smb1HeaderSize+3, uint32(le.Uint16(msg[smb1HeaderSize+1:])))
	if err != nil {
		return SMB1Negotiate{}, err
	}
	var n SMB1Negotiate
	copy(n.IDs[:2], msg[12:14])
	copy(n.IDs[2:], msg[24:smb1HeaderSize])
	for len(list) > 0 {
		end := bytes.IndexByte(list, 0)
		if list[0] != 2 || end < 0 {
			return SMB1Negotiate{}, fault(name, "Dialects", ErrValue)
		}
		switch string(list[1:end]) {
		case dialectSMB2002:
			n.SMB2002 = true
		case dialectSMB2Unknown:
			n.SMB2Wildcard = true
		}
		list = list[end+1:]
	}
	return n, nil
}

// AppendRefusal appends the SMB 1 response that refuses all dialects.
//
// Source: [MS-CIFS 2.2.4.52.2]
func (n *SMB1Negotiate) AppendRefusal(b []byte) []byte {
	b = appendSMB1Header(b, smb1FlagReply, n.IDs)
	b = append(b, 1)
	b = le.AppendUint16(b, smb1NoDialect)
	return le.AppendUint16(b, 0)
}
