package lwio

import (
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"lwio/internal/wire"
)

// What was in flight when its buffer was closed fails, and does not go on in memory that is
// not there any more, whether another connection comes or SMB would do the rest.
//
// Source: [OP-113]
func TestBufferClosedInFlight(t *testing.T) { onEach(t, testBufferClosedInFlight) }

func testBufferClosedInFlight(t *testing.T, on string) {
	type call = func(c *Client, f *File, p []byte) error
	inBatch := func(queue func(b *Batch, f *File, p []byte) error) call {
		return func(c *Client, f *File, p []byte) error {
			b := c.NewBatch(1)
			defer b.Close()
			if err := queue(b, f, p); err != nil {
				return err
			}
			done, err := b.Wait(t.Context(), 1)
			if err != nil {
				return err
			}
			return done[0].Err
		}
	}
	calls := map[string]call{
		"read":        func(_ *Client, f *File, p []byte) error { _, err := f.ReadAt(p, 0); return err },
		"write":       func(_ *Client, f *File, p []byte) error { _, err := f.WriteAt(p, 0); return err },
		"read vec":    func(_ *Client, f *File, p []byte) error { return second(f.ReadVec(t.Context(), halves(p), 0)) },
		"write vec":   func(_ *Client, f *File, p []byte) error { return second(f.WriteVec(t.Context(), halves(p), 0)) },
		"batch read":  inBatch(func(b *Batch, f *File, p []byte) error { return b.Read(f, p, 0, 1) }),
		"batch write": inBatch(func(b *Batch, f *File, p []byte) error { return b.Write(f, p, 0, 1) }),
	}
	for name, do := range calls {
		for _, reconnect := range []time.Duration{-1, time.Minute} {
			share := newFakeShare()
			share.put("f", pattern(8192))
			s := newRawServer(t, on, share)
			s.echoes = true
			var b *Buffer
			var once sync.Once
			s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
				switch h.Opcode {
				case wire.OpRead, wire.OpWrite, wire.OpVecRead, wire.OpVecWrite:
					once.Do(func() {
						b.Close()
						c.cut()
					})
					return true
				}
				return false
			}
			c := s.connect(Config{Reconnect: reconnect})
			f := openOn(t, c, "f")
			b = allocate(t, c, 8192)
			err := do(c, f, b.Bytes()[:4096])
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, fs.ErrClosed) && !errors.Is(err, ErrUncertain) {
				t.Errorf("%s, reconnect %v: %v", name, reconnect, err)
			}
		}
	}
}

func second(_ int, err error) error { return err }

// halves are the two halves of p.
func halves(p []byte) [][]byte { return [][]byte{p[:len(p)/2], p[len(p)/2:]} }
