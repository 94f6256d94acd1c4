package fileio

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// bufferCall is a call with a part of a Buffer.
type bufferCall = func(c *Client, f *File, p []byte) error

// bufferCalls are all kinds of calls with a Buffer.
func bufferCalls(t *testing.T) map[string]bufferCall {
	inBatch := func(queue func(b *Batch, f *File, p []byte) error) bufferCall {
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
	return map[string]bufferCall{
		"read":        func(_ *Client, f *File, p []byte) error { _, err := f.ReadAt(p, 0); return err },
		"write":       func(_ *Client, f *File, p []byte) error { _, err := f.WriteAt(p, 0); return err },
		"read vec":    func(_ *Client, f *File, p []byte) error { return second(f.ReadVec(t.Context(), halves(p), 0)) },
		"write vec":   func(_ *Client, f *File, p []byte) error { return second(f.WriteVec(t.Context(), halves(p), 0)) },
		"batch read":  inBatch(func(b *Batch, f *File, p []byte) error { return b.Read(f, p, 0, 1) }),
		"batch write": inBatch(func(b *Batch, f *File, p []byte) error { return b.Write(f, p, 0, 1) }),
	}
}

// A call in flight when its buffer is closed fails, and does not go on in memory that is
// not there any more, whether another connection comes or SMB would do the rest.
//
// Source: [OP-113]
func TestBufferClosedInFlight(t *testing.T) { onEach(t, testBufferClosedInFlight) }

func testBufferClosedInFlight(t *testing.T, on string) {
	for name, do := range bufferCalls(t) {
		for _, reconnect := range []time.Duration{-1, time.Minute} {
			share := newFakeShare()
			share.put("f", pattern(8192))
			s := newRawServer(t, on, share)
			s.echoes = true
			var b *rdmaconn.Buffer
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
			c := s.connect(base.Config{ReconnectTimeout: reconnect})
			f := openOn(t, c, "f")
			b = allocate(t, c, 8192)
			err := do(c, f, b.Bytes()[:4096])
			var e *base.Error
			if !errors.As(err, &e) || !errors.Is(err, fs.ErrClosed) && !errors.Is(err, base.ErrUncertain) {
				t.Errorf("%s, reconnect %v: %v", name, reconnect, err)
			}
		}
	}
}

// A call that lost its connection fails if its buffer is closed while it waits for another one.
//
// Source: [OP-113]
func TestBufferClosedBetween(t *testing.T) { onEach(t, testBufferClosedBetween) }

func testBufferClosedBetween(t *testing.T, on string) {
	for name, do := range bufferCalls(t) {
		share := newFakeShare()
		share.put("f", pattern(8192))
		s := newRawServer(t, on, share)
		s.echoes = true
		var b *rdmaconn.Buffer
		var requests atomic.Int32
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			switch h.Opcode {
			case wire.OpRead, wire.OpWrite, wire.OpVecRead, wire.OpVecWrite:
				if requests.Add(1) == 1 {
					c.cut()
				} else {
					t.Errorf("%s goes on with %v", name, h.Opcode)
					c.reply(h, 0, uint32(ntstatus.AccessDenied))
				}
				return true
			case wire.OpRegister:
				if requests.Load() > 0 {
					b.Close()
				}
			}
			return false
		}
		c := s.connect(base.Config{ReconnectTimeout: time.Minute})
		f := openOn(t, c, "f")
		b = allocate(t, c, 8192)
		err := do(c, f, b.Bytes()[:4096])
		var e *base.Error
		if !errors.As(err, &e) || !errors.Is(err, fs.ErrClosed) && !errors.Is(err, base.ErrUncertain) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ int, err error) error { return err }

// halves are the two halves of p.
func halves(p []byte) [][]byte { return [][]byte{p[:len(p)/2], p[len(p)/2:]} }
