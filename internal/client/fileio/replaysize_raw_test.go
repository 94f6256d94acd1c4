package fileio

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/wire"
)

// A write in one message, as writes by reference are, cannot be sent again where messages
// are shorter: cut in two it would not be the same write. It is uncertain, and nothing of it
// is sent; later writes go in shorter messages.
//
// Source: [OP-112]
func TestReplayOverShorterMessages(t *testing.T) { onEach(t, testReplayOverShorter) }

func testReplayOverShorter(t *testing.T, on string) {
	const size, long, short = 30_000, 64 << 10, 8 << 10
	for name, write := range map[string]func(c *Client, f *File, p []byte, off int64) (int, error){
		"WriteAt": func(_ *Client, f *File, p []byte, off int64) (int, error) { return f.WriteAt(p, off) },
		"WriteVec": func(_ *Client, f *File, p []byte, off int64) (int, error) {
			return f.WriteVec(t.Context(), cut(p, 10_000), off)
		},
		"Batch": func(c *Client, f *File, p []byte, off int64) (int, error) {
			b := c.NewBatch(1)
			defer b.Close()
			if err := b.Write(f, p, off, 0); err != nil {
				return 0, err
			}
			list, err := b.Wait(t.Context(), 1)
			if err != nil {
				return 0, err
			}
			return list[0].N, list[0].Err
		},
	} {
		share := newFakeShare()
		share.put("g", nil)
		s := newRawServer(t, on, share)
		s.echoes, s.recvSize = true, long
		var sent atomic.Int64
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			if h.Opcode.IO() && h.Offset == 77 && sent.Add(1) == 1 {
				s.mu.Lock()
				s.recvSize = short
				s.mu.Unlock()
				c.cut()
				return true
			}
			return false
		}
		c := s.connect(base.Config{ReconnectTimeout: time.Minute})
		g, buf := openOn(t, c, "g"), allocate(t, c, size)
		n, err := write(c, g, buf.Bytes(), 77)
		if n != 0 || !errors.Is(err, base.ErrUncertain) || !errors.Is(err, errDifferent) || sent.Load() != 1 {
			t.Errorf("%s: %d, %v, sent %d times", name, n, err, sent.Load())
		}
		if n, err := write(c, g, buf.Bytes(), 0); n != size || err != nil || len(share.files["g"].content()) != size {
			t.Errorf("%s: then %d, %v", name, n, err)
		}
		if c.Stats().Reconnects != 1 || !c.Transport().RDMA() {
			t.Errorf("%s: %+v", name, c.Transport())
		}
	}
}
