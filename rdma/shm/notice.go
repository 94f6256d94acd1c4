//go:build linux

package shm

import (
	"encoding/binary"
	"errors"

	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// The messages of a connection on its socket. Payload never goes there.
//
//	wake      0 kind
//	share     0 kind, 1 zeros, 4 memory, 8 slot, 12 token, 16 size of the memory;
//	          the first for a memory comes with its descriptor
//	unshare   0 kind, 1 zeros, 4 memory
const (
	noticeWake    = 1
	noticeShare   = 2
	noticeUnshare = 3

	shareSize   = 24
	unshareSize = 8
)

// errNotice means that the peer sent a malformed message.
var errNotice = errors.New("the peer's message is malformed")

// notice is one message.
type notice struct {
	kind   uint8
	memory uint32
	slot   uint32
	token  uint32
	size   uint64
}

func (n *notice) appendTo(b []byte) []byte {
	b = append(b, n.kind)
	if n.kind == noticeWake {
		return b
	}
	b = append(b, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, n.memory)
	if n.kind == noticeUnshare {
		return b
	}
	b = binary.LittleEndian.AppendUint32(b, n.slot)
	b = binary.LittleEndian.AppendUint32(b, n.token)
	return binary.LittleEndian.AppendUint64(b, n.size)
}

// decodeNotice decodes a message. b must have exactly its length.
func decodeNotice(b []byte) (n notice, err error) {
	if len(b) == 0 {
		return n, errNotice
	}
	n.kind = b[0]
	want := map[uint8]int{noticeWake: 1, noticeShare: shareSize, noticeUnshare: unshareSize}[n.kind]
	if len(b) != want || want > 1 && b[1]|b[2]|b[3] != 0 {
		return notice{}, errNotice
	}
	if want > 1 {
		n.memory = binary.LittleEndian.Uint32(b[4:])
	}
	if n.kind == noticeShare {
		n.slot, n.token = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
		n.size = binary.LittleEndian.Uint64(b[16:])
		if n.slot >= ring.Slots || n.size == 0 || n.size > softrdma.MaxRegistration {
			return notice{}, errNotice
		}
	}
	return n, nil
}
