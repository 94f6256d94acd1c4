package smbauth

import (
	"bytes"
	"fmt"
)

// Object identifiers, as DER content.
//
// Source: [RFC 4178 §4], [MS-SPNG 1.9], [MS-NLMP 1.9]
const (
	oidSPNEGO  = "\x2b\x06\x01\x05\x05\x02"
	oidNTLMSSP = "\x2b\x06\x01\x04\x01\x82\x37\x02\x02\x0a"
)

// negState values of a negTokenResp.
const (
	stateAcceptCompleted  = 0
	stateAcceptIncomplete = 1
	stateReject           = 2
	stateRequestMIC       = 3
	stateAbsent           = 0xFF
)

// negHint is the hint in the first token of Windows servers.
//
// Source: [MS-SPNG 2.2.1]
const negHint = "not_defined_in_RFC4178@please_ignore"

// maxMechs bounds the list of mechanisms of a token.
const maxMechs = 32

// negTokenInit is the first token of a SPNEGO exchange.
//
// Source: [RFC 4178 §4.2.1], [MS-SPNG 2.2.1] (NegTokenInit2)
type negTokenInit struct {
	MechList []byte   // DER of the list, which mechListMIC covers
	Mechs    []string // its object identifiers, as DER content
	Token    []byte
	MIC      []byte
}

// negTokenResp is a later token of a SPNEGO exchange.
//
// Source: [RFC 4178 §4.2.2]
type negTokenResp struct {
	State byte // stateAbsent if not sent
	Mech  string
	Token []byte
	MIC   []byte
}

// mechList returns a list of mechanisms.
func mechList(mechs ...string) []byte {
	var list []byte
	for _, m := range mechs {
		list = derAppend(list, derOID, []byte(m))
	}
	return derWrap(list, derSequence)
}

// appendTo appends the token in its GSS-API frame.
func (t *negTokenInit) appendTo(b []byte) []byte {
	body := derAppend(nil, derContext, t.MechList)
	if t.Token != nil {
		body = append(body, derWrap(t.Token, derContext+2, derOctetString)...)
	}
	if t.MIC != nil {
		body = append(body, derWrap(t.MIC, derContext+3, derOctetString)...)
	}
	inner := derAppend(nil, derOID, []byte(oidSPNEGO))
	inner = append(inner, derWrap(body, derContext, derSequence)...)
	return derAppend(b, derApp0, inner)
}

// appendTo appends the token.
func (t *negTokenResp) appendTo(b []byte) []byte {
	var body []byte
	if t.State != stateAbsent {
		body = append(body, derWrap([]byte{t.State}, derContext, derEnumerated)...)
	}
	if t.Mech != "" {
		body = append(body, derWrap([]byte(t.Mech), derContext+1, derOID)...)
	}
	if t.Token != nil {
		body = append(body, derWrap(t.Token, derContext+2, derOctetString)...)
	}
	if t.MIC != nil {
		body = append(body, derWrap(t.MIC, derContext+3, derOctetString)...)
	}
	return append(b, derWrap(body, derContext+1, derSequence)...)
}

// serverHint returns the token of a server's NEGOTIATE response.
func serverHint(mechs ...string) []byte {
	body := derAppend(nil, derContext, mechList(mechs...))
	hint := derWrap([]byte(negHint), derSequence, derContext, 0x1B) // GeneralString
	body = append(body, derAppend(nil, derContext+3, hint)...)
	inner := derAppend(nil, derOID, []byte(oidSPNEGO))
	inner = append(inner, derWrap(body, derContext, derSequence)...)
	return derAppend(nil, derApp0, inner)
}

// derFields calls a function for each numbered field of a SEQUENCE; the numbers must ascend.
func derFields(seq []byte, field func(n byte, content []byte) error) error {
	last := -1
	for len(seq) > 0 {
		tag, content, rest, err := derNext(seq)
		if err != nil {
			return err
		}
		n := int(tag) - derContext
		if n <= last || n > 4 {
			return fmt.Errorf("SPNEGO field tag %#x: %w", tag, ErrToken)
		}
		if err := field(byte(n), content); err != nil {
			return err
		}
		last, seq = n, rest
	}
	return nil
}

// decodeNegTokenInit decodes a framed negTokenInit; the result points into b.
func decodeNegTokenInit(b []byte) (negTokenInit, error) {
	var t negTokenInit
	frame, err := derOnly(b, derApp0)
	if err != nil {
		return t, err
	}
	tag, oid, rest, err := derNext(frame)
	if err != nil {
		return t, err
	}
	if tag != derOID || string(oid) != oidSPNEGO {
		return t, fmt.Errorf("GSS-API token is not SPNEGO: %w", ErrToken)
	}
	choice, err := derOnly(rest, derContext)
	if err != nil {
		return t, err
	}
	seq, err := derOnly(choice, derSequence)
	if err != nil {
		return t, err
	}
	err = derFields(seq, t.field)
	if err == nil && t.Mechs == nil {
		err = fmt.Errorf("SPNEGO without mechanisms: %w", ErrToken)
	}
	return t, err
}

func (t *negTokenInit) field(n byte, content []byte) (err error) {
	switch n {
	case 0:
		t.MechList = content
		t.Mechs, err = decodeMechs(content)
	case 2:
		t.Token, err = derOnly(content, derOctetString)
	case 3, 4:
		// Field 3 is the MIC of the RFC or the hints of NegTokenInit2, whose
		// MIC then is field 4.
		if len(content) > 0 && content[0] == derSequence && n == 3 {
			_, err = derOnly(content, derSequence)
			return err
		}
		t.MIC, err = derOnly(content, derOctetString)
	}
	return err
}

// decodeMechs decodes a MechTypeList.
func decodeMechs(b []byte) ([]string, error) {
	list, err := derOnly(b, derSequence)
	if err != nil {
		return nil, err
	}
	var mechs []string
	for len(list) > 0 {
		tag, oid, rest, err := derNext(list)
		if err != nil {
			return nil, err
		}
		if tag != derOID || len(oid) == 0 || len(mechs) == maxMechs {
			return nil, fmt.Errorf("SPNEGO mechanism list: %w", ErrToken)
		}
		mechs, list = append(mechs, string(oid)), rest
	}
	return mechs, nil
}

// decodeNegTokenResp decodes a negTokenResp; the result points into b.
func decodeNegTokenResp(b []byte) (negTokenResp, error) {
	t := negTokenResp{State: stateAbsent}
	choice, err := derOnly(b, derContext+1)
	if err != nil {
		return t, err
	}
	seq, err := derOnly(choice, derSequence)
	if err != nil {
		return t, err
	}
	return t, derFields(seq, t.field)
}

func (t *negTokenResp) field(n byte, content []byte) (err error) {
	switch n {
	case 0:
		var v []byte
		if v, err = derOnly(content, derEnumerated); err != nil {
			return err
		}
		if len(v) != 1 || v[0] > stateRequestMIC {
			return fmt.Errorf("SPNEGO state %x: %w", v, ErrToken)
		}
		t.State = v[0]
	case 1:
		var oid []byte
		oid, err = derOnly(content, derOID)
		t.Mech = string(oid)
	case 2:
		t.Token, err = derOnly(content, derOctetString)
	case 3:
		t.MIC, err = derOnly(content, derOctetString)
	default:
		err = fmt.Errorf("SPNEGO field %d: %w", n, ErrToken)
	}
	return err
}

// isSPNEGOInit reports whether b begins with a GSS-API frame.
func isSPNEGOInit(b []byte) bool { return bytes.HasPrefix(b, []byte{derApp0}) }
