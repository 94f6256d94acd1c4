package iwarp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lwio/rdma"
)

// The layers that a Terminate can be about.
//
// Source: [RFC 5040 §4.8]
const (
	layerRDMAP = 0
	layerDDP   = 1
	layerLLP   = 2
)

// fault is an error in the terms of a Terminate message.
type fault struct{ layer, kind, code uint8 }

// The faults that this provider finds in a peer or in itself.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7], [RFC 5044 §8], [RFC 6581 §9]
var (
	faultLocal         = fault{layerRDMAP, 0, 0x00}
	faultReadSTag      = fault{layerRDMAP, 1, 0x00}
	faultReadBounds    = fault{layerRDMAP, 1, 0x01}
	faultReadAccess    = fault{layerRDMAP, 1, 0x02}
	faultReadWrap      = fault{layerRDMAP, 1, 0x04}
	faultCannotInval   = fault{layerRDMAP, 1, 0x09}
	faultRDMAPVersion  = fault{layerRDMAP, 2, 0x05}
	faultOpcode        = fault{layerRDMAP, 2, 0x06}
	faultStream        = fault{layerRDMAP, 2, 0x07}
	faultRDMAPOther    = fault{layerRDMAP, 2, 0xFF}
	faultSTag          = fault{layerDDP, 1, 0x00}
	faultBounds        = fault{layerDDP, 1, 0x01}
	faultWrap          = fault{layerDDP, 1, 0x03}
	faultTaggedVersion = fault{layerDDP, 1, 0x04}
	faultQN            = fault{layerDDP, 2, 0x01}
	faultNoBuffer      = fault{layerDDP, 2, 0x02}
	faultMSN           = fault{layerDDP, 2, 0x03}
	faultMO            = fault{layerDDP, 2, 0x04}
	faultTooLong       = fault{layerDDP, 2, 0x05}
	faultUntaggedVers  = fault{layerDDP, 2, 0x06}
	faultCRC           = fault{layerLLP, 0, 0x02}
	faultFraming       = fault{layerLLP, 0, 0x03}
	faultStartup       = fault{layerLLP, 0, 0x05}
	faultDepth         = fault{layerLLP, 0, 0x06}
	faultRTR           = fault{layerLLP, 0, 0x07}
)

var faultNames = map[fault]string{
	{layerRDMAP, 0, 0x00}: "local catastrophic error",
	faultReadSTag:         "invalid STag",
	faultReadBounds:       "base or bounds violation",
	faultReadAccess:       "access rights violation",
	{layerRDMAP, 1, 0x03}: "STag not associated with the stream",
	faultReadWrap:         "tagged offset wraps",
	faultCannotInval:      "STag cannot be invalidated",
	faultRDMAPVersion:     "invalid RDMAP version",
	faultOpcode:           "unexpected opcode",
	faultStream:           "catastrophic error of the stream",
	{layerRDMAP, 2, 0x08}: "global catastrophic error",
	{layerRDMAP, 2, 0x09}: "STag cannot be invalidated",
	faultRDMAPOther:       "unspecified error",
	{layerRDMAP, 1, 0xFF}: "unspecified error",
	{layerDDP, 0, 0x00}:   "local catastrophic error",
	faultSTag:             "invalid STag",
	faultBounds:           "base or bounds violation",
	{layerDDP, 1, 0x02}:   "STag not associated with the stream",
	faultWrap:             "tagged offset wraps",
	faultTaggedVersion:    "invalid DDP version",
	faultQN:               "invalid queue number",
	faultNoBuffer:         "no buffer for the message",
	faultMSN:              "message sequence number out of range",
	faultMO:               "invalid message offset",
	faultTooLong:          "message too long for the buffer",
	faultUntaggedVers:     "invalid DDP version",
	{layerLLP, 0, 0x01}:   "TCP connection lost",
	faultCRC:              "wrong CRC",
	faultFraming:          "marker and length disagree",
	{layerLLP, 0, 0x04}:   "invalid MPA frame",
	faultStartup:          "local catastrophic error",
	faultDepth:            "insufficient read depth",
	faultRTR:              "no matching ready-to-receive message",
}

// String says what the fault is about, with its numbers.
func (f fault) String() string {
	name, ok := faultNames[f]
	if !ok {
		name = "unknown error"
	}
	return fmt.Sprintf("%s (%d/%d/%02X)", name, f.layer, f.kind, f.code)
}

// rank says how well the fault fits a Terminate without headers: not at all, badly,
// or well.
func (f fault) rank() int {
	switch _, known := faultNames[f]; {
	case !known:
		return 0
	case f.layer == layerLLP || f.kind == 0:
		return 2
	}
	return 1
}

// isProtection tells whether the fault is about a peer that reached for memory
// that it must not touch.
func (f fault) isProtection() bool {
	return f.layer == layerRDMAP && f.kind == 1 || f.layer == layerDDP && f.kind == 1
}

// status is the fault in the terms of the side that caused it. [ND §8 row 9]
func (f fault) status() rdma.Status {
	switch {
	case f.isProtection():
		return rdma.StatusAccessViolation
	case f == faultCRC:
		return rdma.StatusDataError
	}
	return rdma.StatusRemoteError
}

// TerminateError is the cause of a connection's end when one of the two sides
// found an error in what the other did. Layer, Type and Code are the numbers of
// the Terminate message.
//
// Source: [RFC 5040 §4.8]
type TerminateError struct {
	Layer, Type, Code uint8
	// Remote is set when the peer sent the Terminate; otherwise this side found
	// the error.
	Remote bool

	read bool // it is about a read, as far as it tells
}

// Error says who found which error.
func (e *TerminateError) Error() string {
	who := "terminated the peer"
	if e.Remote {
		who = "terminated by the peer"
	}
	return who + ": " + fault{e.Layer, e.Type, e.Code}.String()
}

// The bits that say what a Terminate carries.
const (
	terminateLength = 0x80
	terminateDDP    = 0x40
	terminateRDMAP  = 0x20
)

// terminate is the content of a Terminate message.
//
// Source: [RFC 5040 §4.8]
type terminate struct {
	fault   fault
	control byte // terminateLength, terminateDDP, terminateRDMAP
	length  uint16
	header  []byte // DDP header, then that of RDMAP
}

// errTerminate says that a Terminate cannot be understood.
var errTerminate = errors.New("malformed Terminate")

// appendTo appends the content in the bit order of the RFC.
func (t *terminate) appendTo(b []byte) []byte {
	b = append(b, t.fault.layer<<4|t.fault.kind, t.fault.code, t.control, 0)
	if t.control&terminateDDP != 0 {
		b = binary.BigEndian.AppendUint16(b, t.length)
		b = append(b, t.header...)
	}
	return b
}

// terminateFor is the Terminate for a fault in the segment whose header is given
// as it arrived; an empty header, or a fault of the lower layer, leaves it out.
func terminateFor(f fault, header []byte, ulpdu int) terminate {
	t := terminate{fault: f}
	if len(header) > 0 && f.layer != layerLLP && f != faultLocal {
		t.control = terminateLength | terminateDDP
		t.length, t.header = uint16(ulpdu), header
	}
	return t
}

// decodeTerminate reads a Terminate. It understands two bit orders of the first
// and third byte: that of the RFC, and the mirrored one of a Linux peer; they are
// told apart by the flags, and, without flags, by which fault is a known one that
// needs none: all but those of the lower layer and the local ones come with the
// header that they are about.
func decodeTerminate(b []byte) (terminate, error) {
	if len(b) < 4 {
		return terminate{}, errTerminate
	}
	rfc := fault{b[0] >> 4, b[0] & 0x0F, b[1]}
	mirrored := fault{b[0] & 0x0F, b[0] >> 4, b[1]}
	t := terminate{fault: rfc, control: b[2] & 0xE0}
	if b[2]&0x07 != 0 && b[2]&0xE0 == 0 || b[2]&0xE7 == 0 && mirrored.rank() > rfc.rank() {
		t.fault = mirrored
		t.control = b[2]&0x01<<7 | b[2]&0x02<<5 | b[2]&0x04<<3
	}
	if t.control&terminateDDP == 0 {
		return t, nil
	}
	if len(b) < 6 {
		return terminate{}, errTerminate
	}
	t.length, t.header = binary.BigEndian.Uint16(b[4:]), b[6:]
	return t, nil
}
