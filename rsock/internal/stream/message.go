package stream

import (
	"encoding/binary"
	"fmt"

	"lwio/rsock/internal/verbs"
)

// Version is the only version of the protocol.
const Version = 1

// HeaderSize is the size of the header of every control message, in bytes.
const HeaderSize = 32

// MaxDescriptor is the largest size of a descriptor of RDMA memory, in bytes.
const MaxDescriptor = verbs.MaxDescriptorSize

// The offsets of the fields of a header. Numbers are little-endian.
const (
	offVersion    = 0  // 1 byte
	offType       = 1  // 1 byte
	offFlags      = 2  // 2 bytes
	offSequence   = 4  // 4 bytes
	offCredits    = 8  // 2 bytes
	offPayload    = 10 // 2 bytes
	offTransfer   = 12 // 4 bytes
	offTotal      = 16 // 8 bytes
	offDescriptor = 24 // 4 bytes
	offStatus     = 28 // 4 bytes
)

// Type is the kind of a control message.
//
// Source: [WSD §4]
type Type uint8

// The kinds of control messages.
const (
	// TypeNegotiate and TypeNegotiateAck are the first message of the active and of the
	// passive side.
	TypeNegotiate    Type = 1
	TypeNegotiateAck Type = 2
	// TypeData carries bytes of the stream.
	TypeData Type = 3
	// TypeUrgent carries bytes that go beside the stream.
	TypeUrgent Type = 4
	// TypeOffer announces bytes of the stream that wait to be moved by RDMA: the receiver
	// reads them by the descriptor, or answers TypeReady to an offer without one.
	TypeOffer Type = 5
	// TypeReady names memory that the sender of an offer writes to.
	TypeReady Type = 6
	// TypeDone reports that data was moved.
	TypeDone Type = 7
	// TypeCredit only grants credits.
	TypeCredit Type = 8
	// TypeShutdown ends the sender's stream.
	TypeShutdown Type = 9
	// TypeSuspend, TypeSuspendAck and TypeResume are reserved for connections that move
	// from one process to another.
	TypeSuspend    Type = 10
	TypeSuspendAck Type = 11
	TypeResume     Type = 12
	// TypeFail gives up a transfer.
	TypeFail Type = 13
)

var typeNames = [...]string{
	TypeNegotiate: "negotiate", TypeNegotiateAck: "negotiate-ack", TypeData: "data", TypeUrgent: "urgent",
	TypeOffer: "rdma-offer", TypeReady: "rdma-ready", TypeDone: "rdma-done", TypeCredit: "credit",
	TypeShutdown: "shutdown-send", TypeSuspend: "suspend", TypeSuspendAck: "suspend-ack", TypeResume: "resume",
	TypeFail: "rdma-fail",
}

// String returns the name of the type.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Flags qualify a message.
type Flags uint16

// The flags.
const (
	// FlagBegins (offer): the payload is the beginning of the data that is offered.
	FlagBegins Flags = 1 << 0
	// FlagYours (ready, done, fail): the receiver of this message offered the transfer.
	// Without the flag the sender of this message offered it.
	FlagYours Flags = 1 << 1
	// FlagClosing (shutdown): the sender also reads no more, and waits until the
	// receiver has all data.
	FlagClosing Flags = 1 << 2
	// FlagTaken (shutdown): the answer to FlagClosing.
	FlagTaken Flags = 1 << 3
)

// Message is a control message. Descriptor and Payload of a decoded message alias the
// decoded bytes.
//
// Source: [WSD §4]
type Message struct {
	Type  Type
	Flags Flags
	// Sequence counts the messages of one direction, from 0.
	Sequence uint32
	// Credits is how many more messages the receiver may send.
	Credits uint16
	// Transfer is the id of an offer; each side counts its own from 1.
	Transfer uint32
	// Total is, in bytes, the data of an offer, its payload included; the memory of a ready;
	// and the data that was moved by RDMA for a done or a fail.
	Total uint64
	// Status is the reason of a fail.
	Status     FailStatus
	Descriptor []byte
	Payload    []byte
}

// FailStatus is why a transfer was given up.
type FailStatus uint32

// The reasons.
const (
	// FailWithdrawn: the sender's call is over, for example by its deadline.
	FailWithdrawn FailStatus = 1
	// FailNoBuffers: there was no memory, or it could not be registered.
	FailNoBuffers FailStatus = 2
)

// shape lists the fields of one message type in addition to type, sequence and credits.
type shape struct {
	known                       bool
	flags                       Flags // allowed
	transfer, status, mustGrant bool  // required
	total, descriptor, payload  need
}

type need uint8

const (
	never need = iota
	maybe
	always
)

var shapes = [TypeFail + 1]shape{
	TypeNegotiate:    {known: true, mustGrant: true, payload: always},
	TypeNegotiateAck: {known: true, mustGrant: true, payload: always},
	TypeData:         {known: true, payload: always},
	TypeUrgent:       {known: true, payload: always},
	TypeOffer:        {known: true, flags: FlagBegins, transfer: true, total: always, descriptor: maybe, payload: maybe},
	TypeReady:        {known: true, flags: FlagYours, transfer: true, total: always, descriptor: always},
	TypeDone:         {known: true, flags: FlagYours, transfer: true, total: maybe},
	TypeCredit:       {known: true, mustGrant: true},
	TypeShutdown:     {known: true, flags: FlagClosing | FlagTaken},
	TypeSuspend:      {known: true},
	TypeSuspendAck:   {known: true},
	TypeResume:       {known: true},
	TypeFail:         {known: true, flags: FlagYours, transfer: true, status: true, total: maybe},
}

// Size returns how many bytes AppendTo appends.
func (m *Message) Size() int { return HeaderSize + len(m.Descriptor) + len(m.Payload) }

// AppendTo appends a copy of the message to b.
func (m *Message) AppendTo(b []byte) []byte {
	b = m.appendHeader(b, len(m.Payload))
	b = append(b, m.Descriptor...)
	return append(b, m.Payload...)
}

// appendHeader appends the header of a message with the given bytes of payload.
func (m *Message) appendHeader(b []byte, payload int) []byte {
	b = append(b, Version, byte(m.Type))
	b = binary.LittleEndian.AppendUint16(b, uint16(m.Flags))
	b = binary.LittleEndian.AppendUint32(b, m.Sequence)
	b = binary.LittleEndian.AppendUint16(b, m.Credits)
	b = binary.LittleEndian.AppendUint16(b, uint16(payload))
	b = binary.LittleEndian.AppendUint32(b, m.Transfer)
	b = binary.LittleEndian.AppendUint64(b, m.Total)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Descriptor)))
	return binary.LittleEndian.AppendUint32(b, uint32(m.Status))
}

// Decode decodes a message, which must be all of b. Fields that its type does not use must
// be zero.
//
// Errors: ErrProtocol (wrapped).
func Decode(b []byte) (Message, error) {
	if len(b) < HeaderSize {
		return Message{}, violation("a message of %d bytes", len(b))
	}
	le := binary.LittleEndian
	m := Message{
		Type:     Type(b[offType]),
		Flags:    Flags(le.Uint16(b[offFlags:])),
		Sequence: le.Uint32(b[offSequence:]),
		Credits:  le.Uint16(b[offCredits:]),
		Transfer: le.Uint32(b[offTransfer:]),
		Total:    le.Uint64(b[offTotal:]),
		Status:   FailStatus(le.Uint32(b[offStatus:])),
	}
	descriptor, payload := le.Uint32(b[offDescriptor:]), int(le.Uint16(b[offPayload:]))
	if b[offVersion] != Version {
		return Message{}, violation("a message of version %d", b[offVersion])
	}
	if descriptor > MaxDescriptor || len(b) != HeaderSize+int(descriptor)+payload {
		return Message{}, violation("%v: %d bytes, with a descriptor of %d and a payload of %d", m.Type, len(b), descriptor, payload)
	}
	m.Descriptor = b[HeaderSize : HeaderSize+descriptor]
	m.Payload = b[HeaderSize+descriptor:]
	return m, m.check()
}

// check compares the message with the shape of its type.
func (m *Message) check() error {
	if int(m.Type) >= len(shapes) || !shapes[m.Type].known {
		return violation("a message of %v", m.Type)
	}
	s := &shapes[m.Type]
	switch {
	case m.Flags&^s.flags != 0:
		return violation("%v: flags %#x", m.Type, uint16(m.Flags))
	case (m.Transfer != 0) != s.transfer:
		return violation("%v: transfer %d", m.Type, m.Transfer)
	case (m.Status != 0) != s.status:
		return violation("%v: status %d", m.Type, m.Status)
	case !s.total.fits(m.Total):
		return violation("%v: total length %d", m.Type, m.Total)
	case s.mustGrant && m.Credits == 0:
		return violation("%v: no credits", m.Type)
	case !s.descriptor.fits(uint64(len(m.Descriptor))):
		return violation("%v: a descriptor of %d bytes", m.Type, len(m.Descriptor))
	case !s.payload.fits(uint64(len(m.Payload))):
		return violation("%v: a payload of %d bytes", m.Type, len(m.Payload))
	}
	return m.checkMore()
}

// checkMore checks the rules that shapes do not express.
func (m *Message) checkMore() error {
	switch m.Type {
	case TypeOffer:
		if m.Total <= uint64(len(m.Payload)) || (m.Flags&FlagBegins != 0) != (len(m.Payload) > 0) {
			return violation("%v: total length %d, with a payload of %d", m.Type, m.Total, len(m.Payload))
		}
	case TypeReady:
		if m.Flags&FlagYours == 0 {
			return violation("%v: for a transfer of its sender", m.Type)
		}
	case TypeFail:
		if m.Status > FailNoBuffers {
			return violation("%v: status %d", m.Type, m.Status)
		}
	case TypeShutdown:
		if m.Flags == FlagClosing|FlagTaken {
			return violation("%v: flags %#x", m.Type, uint16(m.Flags))
		}
	default:
	}
	return nil
}

// fits reports whether a value of the given size is allowed.
func (n need) fits(size uint64) bool {
	switch n {
	case never:
		return size == 0
	case always:
		return size > 0
	case maybe:
	}
	return true
}
