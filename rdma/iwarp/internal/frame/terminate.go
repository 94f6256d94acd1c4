package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The layers of a Terminate message.
//
// Source: [RFC 5040 §4.8]
const (
	LayerRDMAP = 0
	LayerDDP   = 1
	LayerLLP   = 2
)

// Fault is an error in the terms of a Terminate message.
type Fault struct{ Layer, Kind, Code uint8 }

// The faults that a side detects at its peer or at itself.
//
// Source: [RFC 5040 §4.8], [RFC 5041 §7], [RFC 5044 §8], [RFC 6581 §9]
var (
	FaultLocal         = Fault{LayerRDMAP, 0, 0x00}
	FaultReadSTag      = Fault{LayerRDMAP, 1, 0x00}
	FaultReadBounds    = Fault{LayerRDMAP, 1, 0x01}
	FaultReadAccess    = Fault{LayerRDMAP, 1, 0x02}
	FaultReadWrap      = Fault{LayerRDMAP, 1, 0x04}
	FaultCannotInval   = Fault{LayerRDMAP, 1, 0x09}
	FaultRDMAPVersion  = Fault{LayerRDMAP, 2, 0x05}
	FaultOpcode        = Fault{LayerRDMAP, 2, 0x06}
	FaultStream        = Fault{LayerRDMAP, 2, 0x07}
	FaultRDMAPOther    = Fault{LayerRDMAP, 2, 0xFF}
	FaultSTag          = Fault{LayerDDP, 1, 0x00}
	FaultBounds        = Fault{LayerDDP, 1, 0x01}
	FaultWrap          = Fault{LayerDDP, 1, 0x03}
	FaultTaggedVersion = Fault{LayerDDP, 1, 0x04}
	FaultQN            = Fault{LayerDDP, 2, 0x01}
	FaultNoBuffer      = Fault{LayerDDP, 2, 0x02}
	FaultMSN           = Fault{LayerDDP, 2, 0x03}
	FaultMO            = Fault{LayerDDP, 2, 0x04}
	FaultTooLong       = Fault{LayerDDP, 2, 0x05}
	FaultUntaggedVers  = Fault{LayerDDP, 2, 0x06}
	FaultCRC           = Fault{LayerLLP, 0, 0x02}
	FaultFraming       = Fault{LayerLLP, 0, 0x03}
	FaultStartup       = Fault{LayerLLP, 0, 0x05}
	FaultDepth         = Fault{LayerLLP, 0, 0x06}
	FaultRTR           = Fault{LayerLLP, 0, 0x07}
)

var faultNames = map[Fault]string{
	{LayerRDMAP, 0, 0x00}: "local catastrophic error",
	FaultReadSTag:         "invalid STag",
	FaultReadBounds:       "base or bounds violation",
	FaultReadAccess:       "access rights violation",
	{LayerRDMAP, 1, 0x03}: "STag not associated with the stream",
	FaultReadWrap:         "tagged offset wraps",
	FaultCannotInval:      "STag cannot be invalidated",
	FaultRDMAPVersion:     "invalid RDMAP version",
	FaultOpcode:           "unexpected opcode",
	FaultStream:           "catastrophic error of the stream",
	{LayerRDMAP, 2, 0x08}: "global catastrophic error",
	{LayerRDMAP, 2, 0x09}: "STag cannot be invalidated",
	FaultRDMAPOther:       "unspecified error",
	{LayerRDMAP, 1, 0xFF}: "unspecified error",
	{LayerDDP, 0, 0x00}:   "local catastrophic error",
	FaultSTag:             "invalid STag",
	FaultBounds:           "base or bounds violation",
	{LayerDDP, 1, 0x02}:   "STag not associated with the stream",
	FaultWrap:             "tagged offset wraps",
	FaultTaggedVersion:    "invalid DDP version",
	FaultQN:               "invalid queue number",
	FaultNoBuffer:         "no buffer for the message",
	FaultMSN:              "message sequence number out of range",
	FaultMO:               "invalid message offset",
	FaultTooLong:          "message too long for the buffer",
	FaultUntaggedVers:     "invalid DDP version",
	{LayerLLP, 0, 0x01}:   "TCP connection lost",
	FaultCRC:              "wrong CRC",
	FaultFraming:          "marker and length disagree",
	{LayerLLP, 0, 0x04}:   "invalid MPA frame",
	FaultStartup:          "local catastrophic error",
	FaultDepth:            "insufficient read depth",
	FaultRTR:              "no matching ready-to-receive message",
}

// String returns the name of the fault and its numbers.
func (f Fault) String() string {
	name, ok := faultNames[f]
	if !ok {
		name = "unknown error"
	}
	return fmt.Sprintf("%s (%d/%d/%02X)", name, f.Layer, f.Kind, f.Code)
}

// rank returns how well the fault fits a Terminate without headers: 0 for an unknown
// fault, 1 for a fault that needs headers, 2 for a fault that needs none.
func (f Fault) rank() int {
	switch _, known := faultNames[f]; {
	case !known:
		return 0
	case f.Layer == LayerLLP || f.Kind == 0:
		return 2
	}
	return 1
}

// IsProtection reports whether the fault is an access to memory without the right to it.
func (f Fault) IsProtection() bool {
	return f.Layer == LayerRDMAP && f.Kind == 1 || f.Layer == LayerDDP && f.Kind == 1
}

// The bits of Terminate.Control, which name the headers that a Terminate carries.
const (
	terminateLength = 0x80
	terminateDDP    = 0x40
	TerminateRDMAP  = 0x20
)

// Terminate is the content of a Terminate message.
//
// Source: [RFC 5040 §4.8]
type Terminate struct {
	Fault   Fault
	Control byte // terminateLength, terminateDDP, TerminateRDMAP
	Length  uint16
	Header  []byte // the DDP header, then the RDMAP header
}

// errTerminate reports a Terminate that cannot be decoded.
var errTerminate = errors.New("malformed Terminate")

// AppendTo appends the content, in the bit order of the RFC.
func (t *Terminate) AppendTo(b []byte) []byte {
	b = append(b, t.Fault.Layer<<4|t.Fault.Kind, t.Fault.Code, t.Control, 0)
	if t.Control&terminateDDP != 0 {
		b = binary.BigEndian.AppendUint16(b, t.Length)
		b = append(b, t.Header...)
	}
	return b
}

// TerminateFor returns the Terminate for a fault in a segment. header is the header of
// the segment as it arrived, ulpdu the size of its ULPDU. The Terminate has no header if
// header is empty, or for a fault of the lower layer or of this side.
func TerminateFor(f Fault, header []byte, ulpdu int) Terminate {
	t := Terminate{Fault: f}
	if len(header) > 0 && f.Layer != LayerLLP && f != FaultLocal {
		t.Control = terminateLength | terminateDDP
		t.Length, t.Header = uint16(ulpdu), header
	}
	return t
}

// DecodeTerminate reads a Terminate; its header refers to b. It accepts two bit orders of
// the first and third byte: the order of the RFC, and the mirrored order of a Linux peer.
// The flags distinguish them. Without flags, it takes the order in which the fault is
// known and needs no header: only faults of the lower layer and local faults come without
// a header.
func DecodeTerminate(b []byte) (Terminate, error) {
	if len(b) < 4 {
		return Terminate{}, errTerminate
	}
	rfc := Fault{b[0] >> 4, b[0] & 0x0F, b[1]}
	mirrored := Fault{b[0] & 0x0F, b[0] >> 4, b[1]}
	t := Terminate{Fault: rfc, Control: b[2] & 0xE0}
	if b[2]&0x07 != 0 && b[2]&0xE0 == 0 || b[2]&0xE7 == 0 && mirrored.rank() > rfc.rank() {
		t.Fault = mirrored
		t.Control = b[2]&0x01<<7 | b[2]&0x02<<5 | b[2]&0x04<<3
	}
	if t.Control&terminateDDP == 0 {
		return t, nil
	}
	if len(b) < 6 {
		return Terminate{}, errTerminate
	}
	t.Length, t.Header = binary.BigEndian.Uint16(b[4:]), b[6:]
	return t, nil
}

// Opcode returns the opcode of the message at fault, if the Terminate carries its
// header.
func (t *Terminate) Opcode() (Opcode, bool) {
	if len(t.Header) < 2 {
		return 0, false
	}
	return Opcode(t.Header[1] & rdmapOpcodeMask), true
}
