package fileio

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"
)

// A change of credits before the last one is over ends the connection. All credits are in use, so
// that the client cannot answer the first change yet, and both changes together leave it a credit.
//
// Source: [OP-74a], [OP-98]
func TestChangeOfCreditsBeforeTheLastIsOver(t *testing.T) {
	onEach(t, testChangeOfCreditsBeforeTheLastIsOver)
}

func testChangeOfCreditsBeforeTheLastIsOver(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(3000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	s.grant = 3
	var reads atomic.Int32
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode != wire.OpRead {
			return false
		}
		if reads.Add(1) == int32(s.grant) {
			c.status(0, ^uint32(0), wire.NotifyCredit)
			c.status(0, ^uint32(0), wire.NotifyCredit)
		}
		return true
	}
	var readers sync.WaitGroup
	t.Cleanup(readers.Wait) // after the client is closed
	c := s.connect(base.Config{Completion: base.Interrupt, Credits: 3})
	f := openOn(t, c, "f")
	for range s.grant {
		readers.Go(func() {
			p := make([]byte, len(want))
			if n, err := f.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, want) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	waitFor(t, func() bool { return !c.Transport().RDMA() })
	readers.Wait()
}
