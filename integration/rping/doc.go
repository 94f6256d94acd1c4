// Package rping has both sides of the rdmacm-utils program rping on the rdma seam, to run a
// provider against the stack of the kernel. In each round the client fills a source buffer
// and sends its address. The server reads the buffer by RDMA Read and reports that. The
// client sends the address of its sink buffer. The server writes the same bytes there by
// RDMA Write and reports that. The client compares. A round thus has a read, a write, and
// four sends that must arrive in order with them.
//
// Source: [RFC 5040 §5]
package rping

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lwio/rdma"
)

// MaxSize bounds the data of a round, in bytes: the C program takes no more.
const MaxSize = 65535

// infoSize is the size of every message, in bytes. The content of the server's messages has
// no meaning.
const infoSize = 16

// PutInfo writes the message with the address of a buffer and its size in bytes.
func PutInfo(b []byte, r rdma.RemoteAddr, size int) {
	binary.BigEndian.PutUint64(b, r.Addr)
	binary.BigEndian.PutUint32(b[8:], uint32(r.Token))
	binary.BigEndian.PutUint32(b[12:], uint32(size))
}

// DecodeInfo reads the message of PutInfo.
func DecodeInfo(b []byte) (r rdma.RemoteAddr, size int, err error) {
	if len(b) != infoSize {
		return r, 0, fmt.Errorf("message of %d bytes", len(b))
	}
	r.Addr = binary.BigEndian.Uint64(b)
	r.Token = rdma.RemoteToken(binary.BigEndian.Uint32(b[8:]))
	if n := binary.BigEndian.Uint32(b[12:]); n <= MaxSize {
		return r, int(n), nil
	}
	return r, 0, errors.New("buffer of more bytes than a round carries")
}

// ErrMismatch reports that the received bytes differ from the sent bytes.
var ErrMismatch = errors.New("rping: the data came back changed")
