// Package rping is the rdmacm-utils program of that name on the rdma seam, both
// halves, so that a provider can be run against the stack of the kernel. In each
// round the client fills a source buffer and sends where it is; the server reads
// it by RDMA Read and says so; the client sends where its sink buffer is; the
// server writes the same bytes there by RDMA Write and says so; the client
// compares. A round thus has a read, a write, and four sends that must be seen in
// order with them.
//
// Source: [RFC 5040 §5]
package rping

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lwio/rdma"
)

// MaxSize is the most that a round carries, in bytes: the C program takes no
// more.
const MaxSize = 65535

// infoSize is the size of every message, in bytes. The content of the server's messages has
// no meaning.
const infoSize = 16

// PutInfo writes the message that says where a buffer is, and its size in bytes.
func PutInfo(b []byte, r rdma.RemoteAddr, size int) {
	binary.BigEndian.PutUint64(b, r.Addr)
	binary.BigEndian.PutUint32(b[8:], uint32(r.Token))
	binary.BigEndian.PutUint32(b[12:], uint32(size))
}

// DecodeInfo reads it.
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

// ErrMismatch says that other bytes came back than went out.
var ErrMismatch = errors.New("rping: the data came back changed")
