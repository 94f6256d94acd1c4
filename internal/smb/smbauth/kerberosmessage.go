package smbauth

import "fmt"

// Token ids of the Kerberos mechanism.
//
// Source: [RFC 4121 §4.1]
const (
	tokenRequest = "\x01\x00" // AP-REQ
	tokenReply   = "\x02\x00" // AP-REP
)

// DER tags that Kerberos uses.
const (
	derInteger       = 0x02
	derBitString     = 0x03
	derGeneralString = 0x1B
)

// Message types and application tags of Kerberos.
//
// Source: [RFC 4120 §5.10]
const (
	kerberosVersion = 5
	kerberosTicket  = 1
	kerberosAPReq   = 14
	kerberosAPRep   = 15
)

// Bounds of a request, in bytes and pieces. Names of the protocol are far shorter.
const (
	maxKerberosName       = 256
	maxKerberosComponents = 4
	// minKerberosCipher is the least length of an encrypted part: 16 bytes of confounder, 1 byte
	// of plain text, and 12 bytes of the shortest code over both.
	minKerberosCipher = 16 + 1 + 12
)

// KerberosCipher is an encrypted part of a message.
//
// Source: [RFC 4120 §5.2.9]
type KerberosCipher struct {
	Type   int32  // of the encryption
	KVNO   uint32 // version of the key, 0 if unknown
	Cipher []byte
}

// KerberosRequest is an AP-REQ: a ticket, and the proof that the client has its session key.
//
// Source: [RFC 4120 §5.5.1], [RFC 4120 §5.3]
type KerberosRequest struct {
	// Realm and Service name the service, such as "cifs" and "host". NameType is the kind of
	// the name.
	Realm    string
	NameType int32
	Service  []string
	// Ticket is encrypted with the key of the service, and Authenticator with the session key
	// of the ticket.
	Ticket, Authenticator KerberosCipher
}

// appendTo appends the request as a token of GSS-API.
//
// Source: [RFC 4121 §4.1]
func (q *KerberosRequest) appendTo(b []byte) []byte {
	var names []byte
	for _, s := range q.Service {
		names = derAppend(names, derGeneralString, []byte(s))
	}
	name := derNumber(nil, derContext, int64(q.NameType))
	name = append(name, derWrap(names, derContext+1, derSequence)...)

	ticket := derNumber(nil, derContext, kerberosVersion)
	ticket = append(ticket, derWrap([]byte(q.Realm), derContext+1, derGeneralString)...)
	ticket = append(ticket, derWrap(name, derContext+2, derSequence)...)
	ticket = q.Ticket.appendTo(ticket, derContext+3)

	req := derNumber(nil, derContext, kerberosVersion)
	req = derNumber(req, derContext+1, kerberosAPReq)
	req = append(req, derWrap([]byte{0, 0x20, 0, 0, 0}, derContext+2, derBitString)...) // mutual-required
	req = append(req, derWrap(ticket, derContext+3, derApp0+kerberosTicket, derSequence)...)
	req = q.Authenticator.appendTo(req, derContext+4)
	return appendKerberosToken(b, tokenRequest, derWrap(req, derApp0+kerberosAPReq, derSequence))
}

// appendTo appends the encrypted part under a tag.
func (c *KerberosCipher) appendTo(b []byte, tag byte) []byte {
	body := derNumber(nil, derContext, int64(c.Type))
	if c.KVNO != 0 {
		body = derNumber(body, derContext+1, int64(c.KVNO))
	}
	body = append(body, derWrap(c.Cipher, derContext+2, derOctetString)...)
	return append(b, derWrap(body, tag, derSequence)...)
}

// appendKerberosReply appends an AP-REP as a token of GSS-API.
//
// Source: [RFC 4120 §5.5.2], [RFC 4121 §4.1]
func appendKerberosReply(b []byte, c *KerberosCipher) []byte {
	rep := derNumber(nil, derContext, kerberosVersion)
	rep = derNumber(rep, derContext+1, kerberosAPRep)
	rep = c.appendTo(rep, derContext+2)
	return appendKerberosToken(b, tokenReply, derWrap(rep, derApp0+kerberosAPRep, derSequence))
}

// appendKerberosToken frames a message for GSS-API.
func appendKerberosToken(b []byte, id string, message []byte) []byte {
	inner := derAppend(nil, derOID, []byte(oidKerberos))
	inner = append(inner, id...)
	return derAppend(b, derApp0, append(inner, message...))
}

// kerberosMessage returns the message of a token of GSS-API.
func kerberosMessage(b []byte, id string) ([]byte, error) {
	frame, err := derOnly(b, derApp0)
	if err != nil {
		return nil, err
	}
	tag, oid, rest, err := derNext(frame)
	if err != nil {
		return nil, err
	}
	if tag != derOID || !isKerberos(string(oid)) || len(rest) < len(id) || string(rest[:len(id)]) != id {
		return nil, fmt.Errorf("not the expected token of Kerberos: %w", ErrToken)
	}
	return rest[len(id):], nil
}

// decodeKerberosRequest decodes an AP-REQ in its token; the result points into b. A request with
// a key of user-to-user authentication is refused.
//
// Source: [RFC 4120 §5.5.1], [RFC 4121 §4.1]
func decodeKerberosRequest(b []byte) (*KerberosRequest, error) {
	b, err := kerberosMessage(b, tokenRequest)
	if err != nil {
		return nil, err
	}
	c := derCursor{b: b}
	c.enter(derApp0 + kerberosAPReq)
	c.enter(derSequence)
	c.number(derContext, kerberosVersion)
	c.number(derContext+1, kerberosAPReq)
	options := c.field(derContext+2, derBitString)
	ticket := c.sub(derContext + 3)
	q := new(KerberosRequest)
	q.Authenticator = c.cipher(derContext + 4)
	if c.end(); c.err != nil {
		return nil, c.err
	}
	const useSessionKey = 0x40
	if len(options) != 5 || options[0] != 0 || options[1]&useSessionKey != 0 {
		return nil, fmt.Errorf("options %x of Kerberos: %w", options, ErrToken)
	}
	return q, q.ticket(ticket)
}

// ticket decodes the ticket of a request.
func (q *KerberosRequest) ticket(b []byte) error {
	c := derCursor{b: b}
	c.enter(derApp0 + kerberosTicket)
	c.enter(derSequence)
	c.number(derContext, kerberosVersion)
	q.Realm = c.name(derContext+1, derGeneralString)
	name := derCursor{b: c.sub(derContext + 2)}
	q.Ticket = c.cipher(derContext + 3)
	if c.end(); c.err != nil {
		return c.err
	}
	name.enter(derSequence)
	q.NameType = int32(name.integer(derContext))
	names := derCursor{b: name.sub(derContext + 1)}
	if name.end(); name.err != nil {
		return name.err
	}
	names.enter(derSequence)
	for names.err == nil && len(names.b) > 0 {
		if len(q.Service) == maxKerberosComponents {
			return fmt.Errorf("name of more than %d components: %w", maxKerberosComponents, ErrToken)
		}
		q.Service = append(q.Service, names.name(derGeneralString))
	}
	if names.err == nil && len(q.Service) == 0 {
		return fmt.Errorf("name without components: %w", ErrToken)
	}
	return names.err
}

// decodeKerberosReply decodes an AP-REP in its token; the result points into b.
//
// Source: [RFC 4120 §5.5.2]
func decodeKerberosReply(b []byte) (KerberosCipher, error) {
	b, err := kerberosMessage(b, tokenReply)
	if err != nil {
		return KerberosCipher{}, err
	}
	c := derCursor{b: b}
	c.enter(derApp0 + kerberosAPRep)
	c.enter(derSequence)
	c.number(derContext, kerberosVersion)
	c.number(derContext+1, kerberosAPRep)
	reply := c.cipher(derContext + 2)
	c.end()
	return reply, c.err
}

// cipher decodes an encrypted part.
func (c *derCursor) cipher(tag byte) (out KerberosCipher) {
	in := derCursor{b: c.sub(tag)}
	if c.err != nil {
		return out
	}
	in.enter(derSequence)
	out.Type = int32(in.integer(derContext))
	if in.next(derContext + 1) {
		out.KVNO = uint32(in.integer(derContext + 1))
	}
	out.Cipher = in.field(derContext+2, derOctetString)
	in.end()
	if c.err = in.err; c.err == nil && len(out.Cipher) < minKerberosCipher {
		c.err = fmt.Errorf("encrypted part of %d bytes: %w", len(out.Cipher), ErrToken)
	}
	return out
}
