package iwarp

import (
	"testing"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// The end of a frame is never read directly from the socket into its destination. While a
// CRC must be checked, no payload is.
//
// Source: [OP-88], [RFC 5044 §4.4]
func TestDirectReadLeavesTheFrameEndAndCheckedFramesToTheBuffer(t *testing.T) {
	a := newAdapter(New(nil), loopback, 1)
	defer a.Close()
	m, err := a.RegisterMemory(t.Context(), make([]byte, 64<<10), rdma.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	r := m.(*softrdma.Region)
	x := &receiver{
		c:         &conn{a: a},
		inFrame:   inFrame{active: true, left: 60000, seg: frame.TaggedSegment(frame.OpWrite, 1, 0, true)},
		placement: placement{grant: softrdma.Grant{Region: r}, target: r.Bytes()[:60000]},
	}
	dst, held := x.directSpace()
	if len(dst) != 60000-8 || held.Region != r {
		t.Errorf("%d bytes", len(dst))
	}
	held.Release()
	x.c.crc = true
	if dst, _ := x.directSpace(); dst != nil {
		t.Error("placed before the CRC was checked")
	}
	x.c.crc = false
	r.Close()
	if dst, _ := x.directSpace(); dst != nil {
		t.Error("placed into a closed region")
	}
}
