package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes and limits of the start-up frames, in bytes.
//
// Source: [RFC 5044 §7.1], [RFC 6581 §9]
const (
	StartupHeaderSize = 20
	MaxPrivateData    = 512
	EnhancedSize      = 4
	MaxStartupSize    = StartupHeaderSize + MaxPrivateData
)

// The keys that open a request and a reply.
const (
	RequestKey = "MPA ID Req Frame"
	ReplyKey   = "MPA ID Rep Frame"
)

// The flag bits of a start-up frame.
const (
	mpaMarkers  = 0x80
	mpaCRC      = 0x40
	mpaReject   = 0x20
	mpaEnhanced = 0x10
)

// DepthUnnegotiated as IRD or ORD means that the sender does not negotiate the value.
const DepthUnnegotiated = 0x3FFF

// Errors of the start-up codec.
var (
	ErrStartupKey      = errors.New("wrong MPA key")
	ErrStartupClash    = errors.New("the peer is an MPA initiator too")
	ErrStartupRevision = errors.New("unknown MPA revision")
	ErrStartupLength   = errors.New("wrong MPA frame length")
)

// Startup is an MPA request or reply.
//
// Source: [RFC 5044 §7.1.1], [RFC 6581 §9]
type Startup struct {
	Reply    bool
	Markers  bool // the sender wants to receive markers
	CRC      bool // the sender prefers CRC
	Reject   bool
	Revision uint8
	Enhanced *Enhanced // nil without revision 2 and the S flag
	Private  []byte    // the private data, without the enhanced data
}

// Enhanced is the enhanced connection data. Revision 2 puts it in front of the private
// data.
//
// Source: [RFC 6581 §9]
type Enhanced struct {
	PeerToPeer        bool // A
	RTRSend           bool // B
	RTRWrite          bool // C
	RTRRead           bool // D
	Inbound, Outbound uint16
}

// appendTo appends the four bytes of the enhanced data.
func (e *Enhanced) appendTo(b []byte) []byte {
	w0, w1 := e.Inbound&0x3FFF, e.Outbound&0x3FFF
	for _, f := range []struct {
		set  bool
		word *uint16
		bit  uint16
	}{
		{e.PeerToPeer, &w0, 0x8000},
		{e.RTRSend, &w0, 0x4000},
		{e.RTRWrite, &w1, 0x8000},
		{e.RTRRead, &w1, 0x4000},
	} {
		if f.set {
			*f.word |= f.bit
		}
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, w0), w1)
}

// decodeEnhanced reads the four bytes of the enhanced data.
func decodeEnhanced(b []byte) *Enhanced {
	w0, w1 := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	return &Enhanced{
		PeerToPeer: w0&0x8000 != 0,
		RTRSend:    w0&0x4000 != 0,
		RTRWrite:   w1&0x8000 != 0,
		RTRRead:    w1&0x4000 != 0,
		Inbound:    w0 & 0x3FFF,
		Outbound:   w1 & 0x3FFF,
	}
}

// AppendTo appends the frame.
func (s *Startup) AppendTo(b []byte) []byte {
	key, flags, n := RequestKey, byte(0), len(s.Private)
	if s.Reply {
		key = ReplyKey
	}
	if s.Markers {
		flags |= mpaMarkers
	}
	if s.CRC {
		flags |= mpaCRC
	}
	if s.Reject {
		flags |= mpaReject
	}
	if s.Enhanced != nil {
		flags |= mpaEnhanced
		n += EnhancedSize
	}
	b = append(b, key...)
	b = append(b, flags, s.Revision)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if s.Enhanced != nil {
		b = s.Enhanced.appendTo(b)
	}
	return append(b, s.Private...)
}

// StartupSize returns the size in bytes of the frame that begins with the header b. The
// frame must be a reply if reply is set, else a request.
//
// Source: [RFC 5044 §7.1.2 rules 5 to 7]
func StartupSize(b []byte, reply bool) (int, error) {
	if len(b) < StartupHeaderSize {
		return 0, ErrStartupLength
	}
	want, other := RequestKey, ReplyKey
	if reply {
		want, other = other, want
	}
	switch key := string(b[:16]); {
	case key == other && reply:
		return 0, ErrStartupClash
	case key != want:
		return 0, ErrStartupKey
	}
	flags, revision := b[16], b[17]
	if revision > 2 {
		return 0, fmt.Errorf("%w %d", ErrStartupRevision, revision)
	}
	private := int(binary.BigEndian.Uint16(b[18:]))
	if private > MaxPrivateData || revision == 2 && flags&mpaEnhanced != 0 && private < EnhancedSize {
		return 0, ErrStartupLength
	}
	return StartupHeaderSize + private, nil
}

// DecodeStartup reads a whole frame. The frame must be a reply if reply is set, else a
// request. The private data refers to b.
//
// Errors: the errors of StartupSize; ErrStartupLength if b has another size.
func DecodeStartup(b []byte, reply bool) (Startup, error) {
	size, err := StartupSize(b, reply)
	if err != nil {
		return Startup{}, err
	}
	if len(b) != size {
		return Startup{}, ErrStartupLength
	}
	flags := b[16]
	s := Startup{
		Reply: reply, Revision: b[17],
		Markers: flags&mpaMarkers != 0, CRC: flags&mpaCRC != 0, Reject: flags&mpaReject != 0,
	}
	b = b[StartupHeaderSize:]
	if s.Revision == 2 && flags&mpaEnhanced != 0 {
		s.Enhanced, b = decodeEnhanced(b), b[EnhancedSize:]
	}
	s.Private = b
	return s, nil
}
