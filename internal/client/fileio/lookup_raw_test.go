package fileio

import (
	"strings"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"
)

// A name that is longer than the server receives goes over SMB, and costs no connection.
//
// Source: [OP-61], [OP-118]
func TestLongNameIsDescribedOverSMB(t *testing.T) { onEach(t, testLongNameIsDescribedOverSMB) }

func testLongNameIsDescribedOverSMB(t *testing.T, on string) {
	const most = 256
	share := newFakeShare()
	share.files[""] = &fakeFile{dir: true}
	fits := strings.Repeat("a", most/2) + "/" + strings.Repeat("a", most/2-1)
	long := fits + "b"
	share.put(fits, pattern(1))
	share.put(long, pattern(2))
	s := newRawServer(t, on, share)
	s.recvSize = most
	s.params = func(p *wire.AuthParams) { p.Extensions = wire.FileCalls | wire.Names }
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpLookup {
			return false
		}
		if string(body) != fits {
			t.Errorf("LOOKUP of %q", body)
		}
		info := wire.StatInfo{Size: 3}
		c.write(h.DataVa, h.DataMh, info.AppendTo(nil))
		c.reply(h, wire.StatInfoSize, 0)
		return true
	}
	c := s.connect(base.Config{})
	for i, want := range []int64{1, 3, 3} { // from the third call on over RDMA
		info, err := c.Stat(t.Context(), fits)
		if err != nil || info.Size() != want {
			t.Fatalf("description %d: %v, %v", i, info, err)
		}
		if info, err = c.Stat(t.Context(), long); err != nil || info.Size() != 2 {
			t.Fatalf("description %d of the long name: %v, %v", i, info, err)
		}
	}
	if n := c.Stats().Lost; n != 0 {
		t.Errorf("%d connections are lost", n)
	}
}
