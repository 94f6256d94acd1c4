package fileio

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/wire"
)

// closingHandle closes a Buffer before it goes to its memory.
type closingHandle struct {
	smbshare.Handle
	b *rdmaconn.Buffer
}

func (h closingHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	h.b.Close()
	return h.Handle.ReadAt(ctx, p, off)
}

func (h closingHandle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	h.b.Close()
	return h.Handle.WriteAt(ctx, p, off)
}

// The memory of a Buffer that is closed under a call over SMB is there until the call is over.
//
// Source: [OP-113]
func TestBufferClosedUnderSMB(t *testing.T) { onEach(t, testBufferClosedUnderSMB) }

func testBufferClosedUnderSMB(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(8192))
	c := newRawServer(t, on, share).connect(base.Config{})
	f := openOn(t, c, "f")
	smb := f.h
	for what, do := range map[string]func(ctx context.Context, p []byte, off int64, of *rdmaconn.Buffer) (int, error){"read": f.readSMB, "write": f.writeSMB} {
		b := allocate(t, c, 8192)
		f.h = closingHandle{smb, b}
		if n, err := do(t.Context(), b.Bytes()[:4096], 0, b); n != 4096 || err != nil {
			t.Errorf("%s: %d, %v", what, n, err)
		}
		freed(t, b)
	}
}

// The memory of each Buffer of a call with several of them is there until the call is over, over
// each transport, whichever Buffer is closed.
//
// Source: [OP-113]
func TestOneOfBuffersClosed(t *testing.T) { onEach(t, testOneOfBuffersClosed) }

func testOneOfBuffersClosed(t *testing.T, on string) {
	for what, do := range map[string]func(f *File, p, q []byte) error{
		"read vec":      func(f *File, p, q []byte) error { return second(f.ReadVec(t.Context(), [][]byte{p, q}, 0)) },
		"read segments": func(f *File, p, q []byte) error { return second(f.ReadVec(t.Context(), [][]byte{p[:99], q[:4095]}, 0)) },
		"write vec":     func(f *File, p, q []byte) error { return second(f.WriteVec(t.Context(), [][]byte{p, q}, 0)) },
	} {
		for closes := range 2 {
			share := newFakeShare()
			share.put("f", pattern(8192))
			s := newRawServer(t, on, share)
			s.echoes = true
			var buffers [2]*rdmaconn.Buffer
			var once sync.Once
			s.handle = func(c *rawConn, h wire.Header, _ []byte) (cut bool) {
				switch h.Opcode {
				case wire.OpRead, wire.OpWrite, wire.OpVecRead, wire.OpVecWrite:
					once.Do(func() {
						buffers[closes].Close()
						c.cut()
						cut = true
					})
				}
				return cut
			}
			c := s.connect(base.Config{ReconnectTimeout: time.Minute})
			f := openOn(t, c, "f")
			buffers = [2]*rdmaconn.Buffer{allocate(t, c, 4096), allocate(t, c, 4096)}
			err := do(f, buffers[0].Bytes()[:4096], buffers[1].Bytes()[:4096])
			if err != nil && !errors.Is(err, fs.ErrClosed) && !errors.Is(err, base.ErrUncertain) {
				t.Errorf("%s, %d closed: %v", what, closes, err)
			}
			freed(t, buffers[closes])
		}
	}
}

// A small write is copied; not from a Buffer that was closed while the write waited for a credit.
//
// Source: [OP-113]
func TestBufferClosedBeforeTheCopy(t *testing.T) { onEach(t, testBufferClosedBeforeTheCopy) }

func testBufferClosedBeforeTheCopy(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(8192))
	s := newRawServer(t, on, share)
	s.grant = 1
	held := make(chan func(), 2)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpWrite {
			held <- func() { c.reply(h, h.Length, 0) }
		}
		return h.Opcode == wire.OpWrite
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	b := allocate(t, c, 4096)
	first, second := make(chan error, 1), make(chan error, 1)
	write := func(end chan error, p []byte) { _, err := f.WriteAt(p, 0); end <- err }
	go write(first, make([]byte, 8))
	answer := <-held
	go write(second, b.Bytes()[:8])
	waitFor(t, func() bool { return c.Live().Pending() == 2 })
	b.Close()
	answer()
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// A small write that is sent again, and copied again for that, finds the memory of its Buffer
// though that is closed meanwhile.
//
// Source: [OP-112], [OP-113]
func TestBufferClosedDuringReplay(t *testing.T) { onEach(t, testBufferClosedDuringReplay) }

func testBufferClosedDuringReplay(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(8192))
	s := newRawServer(t, on, share)
	s.echoes = true
	var b *rdmaconn.Buffer
	var writes atomic.Int32
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		switch {
		case h.Opcode != wire.OpWrite:
			return false
		case writes.Add(1) == 1:
			c.cut()
			return true
		}
		b.Close()
		if isFreed(t, b) {
			t.Error("the memory of an unacknowledged write was freed")
		}
		c.reply(h, h.Length, 0)
		return true
	}
	c := s.connect(base.Config{ReconnectTimeout: time.Minute})
	f := openOn(t, c, "f")
	b = allocate(t, c, 4096)
	if n, err := f.WriteAt(b.Bytes()[:8], 0); n != 8 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if writes.Load() != 2 {
		t.Errorf("%d writes came, of one that was sent again", writes.Load())
	}
	freed(t, b)
}
