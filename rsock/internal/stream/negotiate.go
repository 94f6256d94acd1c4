package stream

import "encoding/binary"

// MaxNegotiation is the most bytes that a message of the negotiation has, with its header.
//
// Source: [WSD §3.3]
const MaxNegotiation = 256

// negotiationSize is the size of a Negotiation, in bytes. What follows it in the payload
// is of later versions, and is not looked at.
const negotiationSize = 16

// canRead is the bit of the only ability.
const canRead = 1 << 0

// Limits of what a peer may announce.
const (
	minBuffers    = 8
	maxBuffers    = 4096
	minBufferSize = MaxNegotiation
	maxBufferSize = 64 << 10
	maxOffers     = 64
)

// Negotiation is what each side tells the other in its first message, as its payload.
//
//	0   4  receive buffers that are posted
//	4   4  size of each, in bytes
//	8   4  unfinished offers that it takes
//	12  4  bit 0: it can RDMA Read
//
// Source: [WSD §3.3], [WSD §5.3]
type Negotiation struct {
	// Buffers is how many control messages may be under way to this side, which is what
	// the credits of the message are too, and BufferSize the most bytes of each.
	Buffers, BufferSize int
	// Offers is how many offers to this side may be unfinished.
	Offers int
	// CanRead says that this side fetches by RDMA Read what it is offered; else it offers
	// memory to be written.
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

// DecodeNegotiation reads the payload of a negotiate or a negotiate-ack.
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
