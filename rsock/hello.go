package rsock

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
)

// helloKind is the message that a hello is part of.
type helloKind uint8

// The kinds.
const (
	helloRequest helloKind = iota + 1
	helloAccept
	helloReject
	proofQuestion // over TCP
	proofAnswer   // over TCP
)

// rejection is why a listener rejects a connection. A rejection carries no proof, so the
// dialer tries TCP next.
//
// Source: [WSD §3.1], [WSD §3.2]
type rejection uint8

// The reasons. A hello that is no rejection has the reason notRejected.
const (
	notRejected     rejection = iota
	rejectedRefused           // Admit returned false
	rejectedBacklog           // the backlog is full
	rejectedClosing           // the listener is closing
	rejectedPort              // another request has announced the port for the proof
)

// hello is the private data of the messages that make a connection. It identifies rsock, and
// contains the TCP addresses of both ends of the connection. A request also announces the TCP
// connection over which the dialer asks for the proof.
//
// On the wire it is, with numbers in little-endian order:
//
//	0   5  "RSOCK"
//	5   1  version, 2
//	6   1  kind
//	7   1  reason of a rejection, else 0
//	8  16  address of the sender; IPv4 is mapped into IPv6
//	24 16  address of the receiver
//	40  2  port of the sender; 0 from a dialer whose fabric has ports of its own
//	42  2  port of the receiver
//	44  2  request: port that the TCP connection for the proof comes from, else 0
//	46  2  0
//	48  8  request: random number of the proof, else 0
type hello struct {
	kind      helloKind
	reason    rejection
	from, to  netip.AddrPort // without zones, which have no meaning for the peer
	proofPort uint16
	nonce     [nonceSize]byte
}

// The layout of a hello. It fills the private data of librdmacm.
const (
	helloMagic   = "RSOCK"
	helloVersion = 2
	helloSize    = 56
	nonceSize    = 8
)

// errHello: private data that is no hello.
var errHello = errors.New("not the private data of rsock")

// appendTo appends the hello to b.
func (h *hello) appendTo(b []byte) []byte {
	from, to := h.from.Addr().As16(), h.to.Addr().As16()
	b = append(b, helloMagic...)
	b = append(b, helloVersion, byte(h.kind), byte(h.reason))
	b = append(b, from[:]...)
	b = append(b, to[:]...)
	b = binary.LittleEndian.AppendUint16(b, h.from.Port())
	b = binary.LittleEndian.AppendUint16(b, h.to.Port())
	b = binary.LittleEndian.AppendUint16(b, h.proofPort)
	b = append(b, 0, 0)
	return append(b, h.nonce[:]...)
}

// decodeHello decodes a hello of a kind. Some fabrics add zeros behind the hello;
// decodeHello ignores them.
func decodeHello(b []byte, kind helloKind) (hello, error) {
	if len(b) < helloSize || string(b[:5]) != helloMagic || b[5] != helloVersion || helloKind(b[6]) != kind {
		return hello{}, errHello
	}
	for _, x := range slices.Concat(b[46:48], b[helloSize:]) {
		if x != 0 {
			return hello{}, errHello
		}
	}
	h := hello{
		kind:      kind,
		reason:    rejection(b[7]),
		from:      addrPort(b[8:24], b[40:42]),
		to:        addrPort(b[24:40], b[42:44]),
		proofPort: binary.LittleEndian.Uint16(b[44:]),
		nonce:     [nonceSize]byte(b[48:]),
	}
	if request := kind == helloRequest; request != (h.proofPort != 0) || !request && h.nonce != [nonceSize]byte{} {
		return hello{}, errHello
	}
	if reject := h.reason >= rejectedRefused && h.reason <= rejectedPort; reject != (kind == helloReject) || !reject && h.reason != notRejected {
		return hello{}, errHello
	}
	return h, nil
}

// addrPort decodes an address and a port.
func addrPort(addr, port []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(addr)).Unmap(), binary.LittleEndian.Uint16(port))
}

// withoutZone returns an address in the form of a hello.
func withoutZone(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}
