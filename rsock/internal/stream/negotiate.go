package stream

import "encoding/binary"

// MaxNegotiation is the largest size of a message of the negotiation with its header, in bytes.
//
// Source: [WSD §3.3]
const MaxNegotiation = 256

// negotiationSize is the size of a Negotiation, in bytes. Further payload belongs to later
// versions and is ignored.
const negotiationSize = 16

// canRead is the bit of the only ability.
const canRead = 1 << 0

// The limits of a negotiation of the peer.
const (
	minBuffers    = 8
	maxBuffers    = 4096
	minBufferSize = MaxNegotiation
	maxBufferSize = 64 << 10
	maxOffers     = 64
)

// Negotiation is the payload of the first message of each side.
//
//	0   4  receive buffers that are posted
//	4   4  size of each, in bytes
//	8   4  unfinished offers that it takes
//	12  4  bit 0: it can RDMA Read
//
// Source: [WSD §3.3], [WSD §5.3]
type Negotiation struct {
	// Buffers is how many control messages may be in flight to this side. It equals the
	// credits of the message. BufferSize is the most bytes of each control message.
	Buffers, BufferSize int
	// Offers is how many offers to this side may be unfinished.
	Offers int
	// CanRead: this side fetches offers by RDMA Read; else the peer writes to its memory.
	CanRead bool
}

// AppendTo appends the negotiation to b.
func (n *Negotiation) AppendTo(b []byte) []byte {
	var flags uint32
	if n.CanRead {
		flags = canRead
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Buffers))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.BufferSize))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Offers))
	return binary.LittleEndian.AppendUint32(b, flags)
}

// DecodeNegotiation decodes the payload of a negotiate or a negotiate-ack.
//
// Errors: ErrProtocol (wrapped).
func DecodeNegotiation(b []byte) (Negotiation, error) {
	if len(b) < negotiationSize || len(b) > MaxNegotiation-HeaderSize {
		return Negotiation{}, violation("a negotiation of %d bytes", len(b))
	}
	le := binary.LittleEndian
	buffers, size, offers := le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
	switch {
	case buffers < minBuffers || buffers > maxBuffers:
		return Negotiation{}, violation("%d receive buffers", buffers)
	case size < minBufferSize || size > maxBufferSize:
		return Negotiation{}, violation("receive buffers of %d bytes", size)
	case offers < 1 || offers > maxOffers:
		return Negotiation{}, violation("%d offers at once", offers)
	}
	return Negotiation{
		Buffers: int(buffers), BufferSize: int(size), Offers: int(offers),
		CanRead: le.Uint32(b[12:])&canRead != 0,
	}, nil
}
