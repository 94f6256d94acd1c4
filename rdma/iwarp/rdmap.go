package iwarp

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

// opcode is the kind of an RDMAP message.
//
// Source: [RFC 5040 §4.1], [RFC 7306 §7]
type opcode byte

// The kinds of messages.
const (
	opWrite          opcode = 0x0
	opReadRequest    opcode = 0x1
	opReadResponse   opcode = 0x2
	opSend           opcode = 0x3
	opSendInvalidate opcode = 0x4
	opSendEvent      opcode = 0x5
	opSendEventInval opcode = 0x6
	opTerminate      opcode = 0x7
	opImmediate      opcode = 0x8
	opImmediateEvent opcode = 0x9
	opAtomicRequest  opcode = 0xA
	opAtomicResponse opcode = 0xB
)

// isSend tells whether the message is one of the four Sends.
func (o opcode) isSend() bool { return o >= opSend && o <= opSendEventInval }

// invalidates tells whether the message carries an STag to invalidate.
func (o opcode) invalidates() bool { return o == opSendInvalidate || o == opSendEventInval }

// solicits tells whether the message asks for an event.
func (o opcode) solicits() bool {
	return o == opSendEvent || o == opSendEventInval || o == opImmediateEvent
}

// isImmediate tells whether the message is one of the two of immediate data.
func (o opcode) isImmediate() bool { return o == opImmediate || o == opImmediateEvent }

// Sizes of what follows the DDP header in some messages, in bytes.
const (
	readRequestSize    = 28
	immediateSize      = 8
	atomicRequestSize  = 52
	atomicResponseSize = 12
)

// errHeaderSize says that an RDMAP header has another size than it must.
var errHeaderSize = errors.New("wrong RDMAP header size")

// readRequest is the content of an RDMA Read Request.
//
// Source: [RFC 5040 §4.4]
type readRequest struct {
	sinkSTag   uint32
	sinkTO     uint64
	size       uint32
	sourceSTag uint32
	sourceTO   uint64
}

func (r *readRequest) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.sinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.sinkTO)
	b = binary.BigEndian.AppendUint32(b, r.size)
	b = binary.BigEndian.AppendUint32(b, r.sourceSTag)
	return binary.BigEndian.AppendUint64(b, r.sourceTO)
}

func decodeReadRequest(b []byte) (readRequest, error) {
	if len(b) != readRequestSize {
		return readRequest{}, errHeaderSize
	}
	return readRequest{
		sinkSTag:   binary.BigEndian.Uint32(b),
		sinkTO:     binary.BigEndian.Uint64(b[4:]),
		size:       binary.BigEndian.Uint32(b[12:]),
		sourceSTag: binary.BigEndian.Uint32(b[16:]),
		sourceTO:   binary.BigEndian.Uint64(b[20:]),
	}, nil
}

// atomicRequest is the content of an Atomic Request.
//
// Source: [RFC 7306 §5.2.1]
type atomicRequest struct {
	op                       uint8 // four bits
	id                       uint32
	stag                     uint32
	to                       uint64
	data, mask               uint64
	compareData, compareMask uint64
}

func (r *atomicRequest) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.op&0x0F))
	b = binary.BigEndian.AppendUint32(b, r.id)
	b = binary.BigEndian.AppendUint32(b, r.stag)
	for _, v := range [...]uint64{r.to, r.data, r.mask, r.compareData, r.compareMask} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func decodeAtomicRequest(b []byte) (atomicRequest, error) {
	if len(b) != atomicRequestSize {
		return atomicRequest{}, errHeaderSize
	}
	return atomicRequest{
		op:          b[3] & 0x0F,
		id:          binary.BigEndian.Uint32(b[4:]),
		stag:        binary.BigEndian.Uint32(b[8:]),
		to:          binary.BigEndian.Uint64(b[12:]),
		data:        binary.BigEndian.Uint64(b[20:]),
		mask:        binary.BigEndian.Uint64(b[28:]),
		compareData: binary.BigEndian.Uint64(b[36:]),
		compareMask: binary.BigEndian.Uint64(b[44:]),
	}, nil
}

// atomicResponse is the content of an Atomic Response.
//
// Source: [RFC 7306 §5.2.2]
type atomicResponse struct {
	id       uint32
	original uint64
}

func (r *atomicResponse) appendTo(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, r.id), r.original)
}

func decodeAtomicResponse(b []byte) (atomicResponse, error) {
	if len(b) != atomicResponseSize {
		return atomicResponse{}, errHeaderSize
	}
	return atomicResponse{binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])}, nil
}
