//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"lwio/rdma"
)

// The messages of a start-up: the request; its answer, which is accept, reject or
// forbidden; and ready, the active side's confirmation. Forbidden means that AllowUID
// refuses the user. Accept and ready carry the descriptors of the sender's segment: its
// words and its ring. Accept also carries the receiver's doorbell: the socket that it
// sleeps on, and the socket that it rings with. The other messages have no descriptors.
//
//	0 magic, 8 kind, 9 zeros, 12 size of the ring, 16 and 20 read limits,
//	24 length of the private data, 28 zeros, 32 private data
const (
	helloMagic     = "LWIOshm\x06"
	helloSize      = 32
	helloRequest   = 1
	helloAccept    = 2
	helloReject    = 3
	helloReady     = 4
	helloForbidden = 5
)

// maxHello is the size of the longest message of a start-up.
const maxHello = helloSize + maxPrivateData

// hello is one message. All numbers are little-endian.
type hello struct {
	kind    uint8
	ring    uint32 // size of the segment's ring in bytes, 0 without a segment
	limits  rdma.ReadLimits
	private []byte
}

// Errors of a start-up.
var (
	errHello     = errors.New("the peer's start-up message is malformed")
	errRejected  = errors.New("the peer rejected the connection")
	errForbidden = errors.New("the peer does not allow this process's user")
	errUser      = fmt.Errorf("%w: the peer's user is not allowed", fs.ErrPermission)
)

// The descriptors that the messages carry: a segment, and in an acceptance a doorbell too.
const (
	readyFDs  = 2
	acceptFDs = 4
)

// carries returns the number of descriptors of the message.
func (h *hello) carries() int {
	switch h.kind {
	case helloAccept:
		return acceptFDs
	case helloReady:
		return readyFDs
	}
	return 0
}

// begins reports whether the message carries a segment.
func (h *hello) begins() bool { return h.kind == helloAccept || h.kind == helloReady }

// refusal returns nil for an acceptance, the only answer that lets a connection begin.
func (h *hello) refusal() error {
	switch h.kind {
	case helloAccept:
		return nil
	case helloReject:
		return errRejected
	case helloForbidden:
		return errForbidden
	}
	return errHello
}

func (h *hello) appendTo(b []byte) []byte {
	b = append(b, helloMagic...)
	b = append(b, h.kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, h.ring)
	b = binary.LittleEndian.AppendUint32(b, clipLimit(h.limits.Inbound))
	b = binary.LittleEndian.AppendUint32(b, clipLimit(h.limits.Outbound))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.private)))
	b = append(b, 0, 0, 0, 0)
	return append(b, h.private...)
}

func clipLimit(n int) uint32 { return uint32(min(max(n, 0), 1<<16)) }

// decodeHello decodes a message. b must have exactly its length.
func decodeHello(b []byte) (h hello, err error) {
	if len(b) < helloSize || len(b) > maxHello || string(b[:8]) != helloMagic {
		return h, errHello
	}
	h.kind = b[8]
	h.ring = binary.LittleEndian.Uint32(b[12:])
	in, out := binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:])
	zeros := b[9]|b[10]|b[11]|b[28]|b[29]|b[30]|b[31] == 0
	if h.kind < helloRequest || h.kind > helloForbidden || !zeros || in > 1<<16 || out > 1<<16 || h.begins() != (h.ring != 0) {
		return hello{}, errHello
	}
	if int64(binary.LittleEndian.Uint32(b[24:])) != int64(len(b)-helloSize) {
		return hello{}, errHello
	}
	h.limits = rdma.ReadLimits{Inbound: int(in), Outbound: int(out)}
	h.private = append([]byte(nil), b[helloSize:]...)
	return h, nil
}
