package iwarp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes and limits of the start-up frames, in bytes.
//
// Source: [RFC 5044 §7.1], [RFC 6581 §9]
const (
	startupHeaderSize = 20
	maxPrivateData    = 512
	enhancedSize      = 4
	maxStartupSize    = startupHeaderSize + maxPrivateData
)

// The keys that open a request and a reply.
const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
)

// The flag bits of a start-up frame.
const (
	mpaMarkers  = 0x80
	mpaCRC      = 0x40
	mpaReject   = 0x20
	mpaEnhanced = 0x10
)

// depthUnnegotiated as IRD or ORD asks the other side to leave the value alone.
const depthUnnegotiated = 0x3FFF

// Errors of the start-up codec.
var (
	errStartupKey      = errors.New("wrong MPA key")
	errStartupClash    = errors.New("the peer is an MPA initiator too")
	errStartupRevision = errors.New("unknown MPA revision")
	errStartupLength   = errors.New("wrong MPA frame length")
)

// startup is an MPA request or reply.
//
// Source: [RFC 5044 §7.1.1], [RFC 6581 §9]
type startup struct {
	reply    bool
	markers  bool // the sender wants markers in what it receives
	crc      bool // the sender prefers CRC
	reject   bool
	revision uint8
	enhanced *enhancedData // nil unless revision 2 and the S flag
	private  []byte        // of the user, without the enhanced data
}

// enhancedData is what revision 2 puts in front of the private data.
//
// Source: [RFC 6581 §9.1]
type enhancedData struct {
	peerToPeer        bool // A
	rtrSend           bool // B
	rtrWrite          bool // C
	rtrRead           bool // D
	inbound, outbound uint16
}

// appendTo appends the four bytes.
func (e *enhancedData) appendTo(b []byte) []byte {
	w0, w1 := e.inbound&0x3FFF, e.outbound&0x3FFF
	for _, f := range []struct {
		set  bool
		word *uint16
		bit  uint16
	}{
		{e.peerToPeer, &w0, 0x8000},
		{e.rtrSend, &w0, 0x4000},
		{e.rtrWrite, &w1, 0x8000},
		{e.rtrRead, &w1, 0x4000},
	} {
		if f.set {
			*f.word |= f.bit
		}
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, w0), w1)
}

// decodeEnhanced reads the four bytes.
func decodeEnhanced(b []byte) *enhancedData {
	w0, w1 := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	return &enhancedData{
		peerToPeer: w0&0x8000 != 0,
		rtrSend:    w0&0x4000 != 0,
		rtrWrite:   w1&0x8000 != 0,
		rtrRead:    w1&0x4000 != 0,
		inbound:    w0 & 0x3FFF,
		outbound:   w1 & 0x3FFF,
	}
}

// appendTo appends the frame.
func (s *startup) appendTo(b []byte) []byte {
	key, flags, n := requestKey, byte(0), len(s.private)
	if s.reply {
		key = replyKey
	}
	if s.markers {
		flags |= mpaMarkers
	}
	if s.crc {
		flags |= mpaCRC
	}
	if s.reject {
		flags |= mpaReject
	}
	if s.enhanced != nil {
		flags |= mpaEnhanced
		n += enhancedSize
	}
	b = append(b, key...)
	b = append(b, flags, s.revision)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if s.enhanced != nil {
		b = s.enhanced.appendTo(b)
	}
	return append(b, s.private...)
}

// decodeStartupHeader reads the fixed part of a frame that must be a reply or
// must be a request, and says how many bytes of private data follow.
//
// Source: [RFC 5044 §7.1.2 rules 5 to 7]
func decodeStartupHeader(b []byte, reply bool) (s startup, private int, err error) {
	if len(b) != startupHeaderSize {
		return s, 0, errStartupLength
	}
	want, other := requestKey, replyKey
	if reply {
		want, other = other, want
	}
	switch key := string(b[:16]); {
	case key == other && reply:
		return s, 0, errStartupClash
	case key != want:
		return s, 0, errStartupKey
	}
	flags := b[16]
	s.reply, s.revision = reply, b[17]
	if s.revision > 2 {
		return s, 0, fmt.Errorf("%w %d", errStartupRevision, s.revision)
	}
	s.markers, s.crc, s.reject = flags&mpaMarkers != 0, flags&mpaCRC != 0, flags&mpaReject != 0
	private = int(binary.BigEndian.Uint16(b[18:]))
	if private > maxPrivateData {
		return s, 0, errStartupLength
	}
	if s.revision == 2 && flags&mpaEnhanced != 0 {
		if private < enhancedSize {
			return s, 0, errStartupLength
		}
		s.enhanced = &enhancedData{}
	}
	return s, private, nil
}

// setPrivate takes the bytes after the fixed part.
func (s *startup) setPrivate(b []byte) {
	if s.enhanced != nil {
		s.enhanced, b = decodeEnhanced(b), b[enhancedSize:]
	}
	s.private = b
}

// decodeStartup reads a whole frame, of which b must hold neither less nor more.
func decodeStartup(b []byte, reply bool) (startup, error) {
	if len(b) < startupHeaderSize {
		return startup{}, errStartupLength
	}
	s, n, err := decodeStartupHeader(b[:startupHeaderSize], reply)
	if err != nil {
		return startup{}, err
	}
	if len(b) != startupHeaderSize+n {
		return startup{}, errStartupLength
	}
	s.setPrivate(b[startupHeaderSize:])
	return s, nil
}
