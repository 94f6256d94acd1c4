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

// infoSize is the size of every message, in bytes.
const infoSize = 16

// info says where a buffer is. What the server sends has the same size, and no
// meaning.
type info struct {
	remote rdma.RemoteAddr
	size   uint32 // bytes
}

func (i *info) put(b []byte) {
	binary.BigEndian.PutUint64(b, i.remote.Addr)
	binary.BigEndian.PutUint32(b[8:], uint32(i.remote.Token))
	binary.BigEndian.PutUint32(b[12:], i.size)
}

func decodeInfo(b []byte) (info, error) {
	if len(b) != infoSize {
		return info{}, fmt.Errorf("message of %d bytes", len(b))
	}
	i := info{size: binary.BigEndian.Uint32(b[12:])}
	i.remote.Addr = binary.BigEndian.Uint64(b)
	i.remote.Token = rdma.RemoteToken(binary.BigEndian.Uint32(b[8:]))
	if i.size > MaxSize {
		return info{}, fmt.Errorf("buffer of %d bytes", i.size)
	}
	return i, nil
}

// ErrMismatch says that other bytes came back than went out.
var ErrMismatch = errors.New("rping: the data came back changed")
