package server

import (
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// The answer to a message with several violations names the first in the order of the protocol:
// opcode, flags, other fields of the header, Fid, access.
//
// Source: [OP-63] [OP-92e] [OP-106]
func TestFirstViolationIsAnswered(t *testing.T) { onEach(t, testFirstViolationIsAnswered) }

func testFirstViolationIsAnswered(t *testing.T, on string) {
	const unknownFlag, unknownFid = 4, 999
	v := newEnv(t, envConfig{on: on})
	v.file("a", content(100)).Close()
	c := v.client()
	writable := c.register(v.open("a", vfs.WriteData, 0, v.sess))

	h := controlHeader(0x42, unknownFid)
	h.Flags |= unknownFlag
	c.want(ntstatus.InvalidDeviceRequest, 0, h, nil)

	for _, fid := range []uint16{unknownFid, writable} {
		h = c.readHeader(fid, 0, 100, 0)
		h.Flags |= unknownFlag
		c.want(ntstatus.InvalidParameter, 0, h, nil)
		h = c.readHeader(fid, 1<<63-1, 100, 0)
		c.want(ntstatus.InvalidParameter, 0, h, nil)
	}
	c.want(ntstatus.FileClosed, 0, c.readHeader(unknownFid, 0, 100, 0), nil)
	c.want(ntstatus.AccessDenied, 0, c.readHeader(writable, 0, 100, 0), nil)

	h = writeHeader(unknownFid, 0, 4)
	h.Flags |= wire.FlagCollapse
	c.want(ntstatus.InvalidParameter, 0, h, []byte("data"))
	v.check(c)
}
