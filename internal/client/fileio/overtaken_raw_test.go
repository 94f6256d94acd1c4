package fileio

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// A write that a server died during, and that cannot be done again because the file was changed since, is uncertain. The
// same answer to a write that is sent for the first time is a refusal.
//
// Source: [OP-112]
func TestOvertakenWriteIsUncertain(t *testing.T) { onEach(t, testOvertakenWriteIsUncertain) }

func testOvertakenWriteIsUncertain(t *testing.T, on string) {
	share := newFakeShare()
	share.put("g", nil)
	s := newRawServer(t, on, share)
	s.echoes = true
	var sent atomic.Int64
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		switch {
		case !h.Opcode.IO() || h.Offset != 77:
			return false
		case sent.Add(1) == 1:
			c.cut()
		default:
			c.reply(h, 0, uint32(ntstatus.RequestOutOfSequence))
		}
		return true
	}
	c := s.connect(base.Config{ReconnectTimeout: time.Minute})
	g := openOn(t, c, "g")
	n, err := g.WriteAt([]byte("data"), 77)
	if n != 0 || !errors.Is(err, base.ErrUncertain) || !errors.Is(err, net.ErrClosed) || !errors.Is(err, errOvertaken) || sent.Load() != 2 {
		t.Errorf("%d, %v, sent %d times", n, err, sent.Load())
	}
	if _, err := g.WriteAt([]byte("data"), 77); errors.Is(err, base.ErrUncertain) || !errors.Is(err, ntstatus.RequestOutOfSequence) {
		t.Errorf("sent once: %v", err)
	}
	if n, err := g.WriteAt([]byte("data"), 0); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
