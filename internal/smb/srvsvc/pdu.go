package srvsvc

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var le = binary.LittleEndian

// ErrMalformed is the error of a request that is no PDU, or whose lengths contradict each other.
var ErrMalformed = errors.New("srvsvc: malformed PDU")

func malformed(part string) error { return fmt.Errorf("%w: %s", ErrMalformed, part) }

// Kinds of PDUs.
//
// Source: [C706 12.6.1]
const (
	kindRequest      = 0
	kindResponse     = 2
	kindFault        = 3
	kindBind         = 11
	kindBindAck      = 12
	kindBindNak      = 13
	kindAlterContext = 14
	kindAlterResp    = 15
)

// Flags of a PDU.
//
// Source: [C706 12.6.3.1]
const (
	flagFirst  = 0x01
	flagLast   = 0x02
	flagObject = 0x80 // the body has the id of an object
	flagsWhole = flagFirst | flagLast
)

const (
	headerSize = 16
	// callSize is the length of the fields before the data of a request or a response, in bytes.
	callSize = 8
	// objectSize is the length of the id of an object, in bytes.
	objectSize = 16
	// maxSent bounds the PDUs of a response, in bytes. All clients take PDUs of that size.
	//
	// Source: [C706 12.6.3.1]
	maxSent = 1432
	// maxFragment is the largest PDU that the server offers in a bind, in bytes.
	maxFragment = 4280
)

// littleEndian is the representation of integers, characters and floating-point numbers: little
// endian, ASCII, IEEE.
//
// Source: [C706 14.1]
var littleEndian = [4]byte{0x10, 0, 0, 0}

// header is the head of a PDU. The lengths are checked when it is decoded.
//
// Source: [C706 12.6.3.1]
type header struct {
	version, minor uint8
	kind, flags    uint8
	authLength     uint16
	callID         uint32
}

// decodeHeader returns the head of a PDU and its body.
func decodeHeader(b []byte) (h header, body []byte, err error) {
	switch {
	case len(b) < headerSize:
		return h, nil, malformed("header")
	case int(le.Uint16(b[8:])) != len(b):
		return h, nil, malformed("length of the fragment")
	case b[4]&0xF0 != littleEndian[0]&0xF0:
		return h, nil, malformed("representation of data")
	}
	h = header{version: b[0], minor: b[1], kind: b[2], flags: b[3], authLength: le.Uint16(b[10:]), callID: le.Uint32(b[12:])}
	return h, b[headerSize:], nil
}

// appendPDU appends a PDU of version 5.0.
func appendPDU(b []byte, kind, flags uint8, callID uint32, body ...[]byte) []byte {
	start := len(b)
	b = append(b, 5, 0, kind, flags)
	b = append(b, littleEndian[:]...)
	b = append(b, 0, 0, 0, 0)
	b = le.AppendUint32(b, callID)
	for _, part := range body {
		b = append(b, part...)
	}
	le.PutUint16(b[start+8:], uint16(len(b)-start))
	return b
}

// Codes of a fault.
//
// Source: [C706 E]
const (
	faultOperationRange = 0x1C010002
	faultProtocol       = 0x1C01000B
	faultBadStubData    = 0x000006F7
)

// fault returns a PDU that refuses a call.
//
// Source: [C706 12.6.4.7]
func fault(callID uint32, contextID uint16, code uint32) []byte {
	body := make([]byte, 16)
	le.PutUint16(body[4:], contextID)
	le.PutUint32(body[8:], code)
	return appendPDU(nil, kindFault, flagsWhole, callID, body)
}

// response returns the PDUs of the result of a call, each at most maxSent bytes.
//
// Source: [C706 12.6.4.10]
func response(callID uint32, contextID uint16, stub []byte) (pdus [][]byte) {
	const most = maxSent - headerSize - callSize
	flags := uint8(flagFirst)
	for {
		part := stub
		if len(part) > most {
			part = part[:most]
		} else {
			flags |= flagLast
		}
		call := le.AppendUint32(make([]byte, 0, callSize), uint32(len(stub)))
		call = le.AppendUint16(call, contextID)
		call = append(call, 0, 0)
		pdus = append(pdus, appendPDU(nil, kindResponse, flags, callID, call, part))
		if flags&flagLast != 0 {
			return pdus
		}
		stub, flags = stub[most:], 0
	}
}
