package frame

import (
	"encoding/binary"
	"errors"
)

// The bits of the RDMAP control byte.
//
// Source: [RFC 5040 §4.1]
const (
	rdmapVersionMask = 0xC0
	rdmapVersion     = 0x40
	rdmapOpcodeMask  = 0x0F
)

// Opcode is the kind of an RDMAP message.
//
// Source: [RFC 5040 §4.2], [RFC 7306 §4.2]
type Opcode byte

// The kinds of messages.
const (
	OpWrite          Opcode = 0x0
	OpReadRequest    Opcode = 0x1
	OpReadResponse   Opcode = 0x2
	OpSend           Opcode = 0x3
	OpSendInvalidate Opcode = 0x4
	OpSendEvent      Opcode = 0x5
	OpSendEventInval Opcode = 0x6
	OpTerminate      Opcode = 0x7
	OpImmediate      Opcode = 0x8
	OpImmediateEvent Opcode = 0x9
	OpAtomicRequest  Opcode = 0xA
	OpAtomicResponse Opcode = 0xB
)

// IsSend reports whether the message is one of the four Sends.
func (o Opcode) IsSend() bool { return o >= OpSend && o <= OpSendEventInval }

// Invalidates reports whether the message carries an STag to invalidate.
func (o Opcode) Invalidates() bool { return o == OpSendInvalidate || o == OpSendEventInval }

// Solicits reports whether the message asks for an event.
func (o Opcode) Solicits() bool {
	return o == OpSendEvent || o == OpSendEventInval || o == OpImmediateEvent
}

// IsImmediate reports whether the message is one of the two kinds of immediate data.
func (o Opcode) IsImmediate() bool { return o == OpImmediate || o == OpImmediateEvent }

// Sizes of the RDMAP headers that follow the DDP header of some messages, in bytes.
const (
	ReadRequestSize    = 28
	ImmediateSize      = 8
	AtomicRequestSize  = 52
	AtomicResponseSize = 12
)

// errHeaderSize reports an RDMAP header of the wrong size.
var errHeaderSize = errors.New("wrong RDMAP header size")

// ReadRequest is the content of an RDMA Read Request.
//
// Source: [RFC 5040 §4.4]
type ReadRequest struct {
	SinkSTag   uint32
	SinkTO     uint64
	Size       uint32
	SourceSTag uint32
	SourceTO   uint64
}

// AppendTo appends the content.
func (r *ReadRequest) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.SinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, r.SourceSTag)
	return binary.BigEndian.AppendUint64(b, r.SourceTO)
}

// DecodeReadRequest reads the content. b must have exactly its size.
func DecodeReadRequest(b []byte) (ReadRequest, error) {
	if len(b) != ReadRequestSize {
		return ReadRequest{}, errHeaderSize
	}
	return ReadRequest{
		SinkSTag:   binary.BigEndian.Uint32(b),
		SinkTO:     binary.BigEndian.Uint64(b[4:]),
		Size:       binary.BigEndian.Uint32(b[12:]),
		SourceSTag: binary.BigEndian.Uint32(b[16:]),
		SourceTO:   binary.BigEndian.Uint64(b[20:]),
	}, nil
}

// AtomicRequest is the content of an Atomic Request.
//
// Source: [RFC 7306 §5.2.1]
type AtomicRequest struct {
	Op                       uint8 // four bits
	ID                       uint32
	STag                     uint32
	TO                       uint64
	Data, Mask               uint64
	CompareData, CompareMask uint64
}

// AppendTo appends the content.
func (r *AtomicRequest) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.Op&0x0F))
	b = binary.BigEndian.AppendUint32(b, r.ID)
	b = binary.BigEndian.AppendUint32(b, r.STag)
	for _, v := range [...]uint64{r.TO, r.Data, r.Mask, r.CompareData, r.CompareMask} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// DecodeAtomicRequest reads the content. b must have exactly its size.
func DecodeAtomicRequest(b []byte) (AtomicRequest, error) {
	if len(b) != AtomicRequestSize {
		return AtomicRequest{}, errHeaderSize
	}
	return AtomicRequest{
		Op:          b[3] & 0x0F,
		ID:          binary.BigEndian.Uint32(b[4:]),
		STag:        binary.BigEndian.Uint32(b[8:]),
		TO:          binary.BigEndian.Uint64(b[12:]),
		Data:        binary.BigEndian.Uint64(b[20:]),
		Mask:        binary.BigEndian.Uint64(b[28:]),
		CompareData: binary.BigEndian.Uint64(b[36:]),
		CompareMask: binary.BigEndian.Uint64(b[44:]),
	}, nil
}

// AtomicResponse is the content of an Atomic Response.
//
// Source: [RFC 7306 §5.2.2]
type AtomicResponse struct {
	ID       uint32
	Original uint64
}

// AppendTo appends the content.
func (r *AtomicResponse) AppendTo(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, r.ID), r.Original)
}

// DecodeAtomicResponse reads the content. b must have exactly its size.
func DecodeAtomicResponse(b []byte) (AtomicResponse, error) {
	if len(b) != AtomicResponseSize {
		return AtomicResponse{}, errHeaderSize
	}
	return AtomicResponse{binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])}, nil
}

// The operations of an Atomic Request.
//
// Source: [RFC 7306 §5.2.1]
const (
	AtomicFetchAdd    = 0
	AtomicCompareSwap = 2
)

// After returns the number that replaces old.
//
// Source: [RFC 7306 §5.1.1], [RFC 7306 §5.1.2]
func (r *AtomicRequest) After(old uint64) uint64 {
	if r.Op == AtomicFetchAdd {
		// The bits of the mask are cleared, so no carry crosses a field boundary.
		return (old&^r.Mask + r.Data&^r.Mask) ^ (old^r.Data)&r.Mask
	}
	if (old^r.CompareData)&r.CompareMask != 0 {
		return old
	}
	return old&^r.Mask | r.Data&r.Mask
}
