package iwarp

import (
	"bytes"
	"fmt"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// The second segment of a Send begins where the first ends. A segment that goes back in the
// message, or leaves bytes out, is answered by a Terminate, and its data is not placed.
//
// Source: [RFC 5041 §7]
func TestSendSegmentOutOfPlaceIsRefused(t *testing.T) {
	for _, offset := range []uint32{0, 7, 9, 16} {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			e, p := connectRaw(t, CRCOn)
			e.recv(1, 100, 100)
			part := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, false)
			stream := p.frame(part, bytes.Repeat([]byte{1}, 8))
			part.DDP |= frame.DDPLast
			part.MO = offset
			p.send(append(stream, p.frame(part, bytes.Repeat([]byte{0xEE}, 8))...))
			if got := p.wantTerminate(); !bytes.HasPrefix(got, []byte{0x12, 4}) {
				t.Errorf("Terminate %x", got)
			}
			e.want(rdma.OpReceive, 1, rdma.StatusCanceled)
			e.wantDone()
			if bytes.IndexByte(e.buf, 0xEE) >= 0 {
				t.Error("data is placed")
			}
		})
	}
}
