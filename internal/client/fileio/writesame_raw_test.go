package fileio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// collapsed is a message that the client sent, and its body.
type collapsed struct {
	h    wire.Header
	body []byte
}

// sameWays are the ways to write a page over and over.
var sameWays = map[string]func(c *Client, f *File, p []byte, off, n int64) (int64, error){
	"call": func(_ *Client, f *File, p []byte, off, n int64) (int64, error) {
		return f.WriteSame(context.Background(), p, off, n)
	},
	"batch": func(c *Client, f *File, p []byte, off, n int64) (int64, error) {
		b := c.NewBatch(1)
		defer b.Close()
		if err := b.WriteSame(f, p, off, n, 0); err != nil {
			return 0, err
		}
		list, err := b.Wait(context.Background(), 1)
		return int64(list[0].N), errors.Join(err, list[0].Err)
	},
}

// A collapsed write is one page with one message for each window, in both modes of
// completion.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-61b], [OP-75], [OP-76], [OP-78], [OP-79]
func TestCollapsedMessages(t *testing.T) { onEach(t, testCollapsedMessages) }

func testCollapsedMessages(t *testing.T, on string) {
	for name, do := range sameWays {
		t.Run(name, func(t *testing.T) { testCollapsedBy(t, on, do) })
	}
}

func testCollapsedBy(t *testing.T, on string, do func(c *Client, f *File, p []byte, off, n int64) (int64, error)) {
	page := pattern(rdmaconn.ProtocolPage)
	for _, r := range []struct {
		mode                 base.CompletionMode
		textOnly             bool
		window, recvSize     uint32
		n, collapses, writes int
	}{
		{base.Interrupt, false, 64 << 10, 8 << 10, 200_000, 4, 0},
		{base.Polling, false, 64 << 10, 8 << 10, 200_000, 4, 0},
		{base.Interrupt, true, 512 << 10, 8 << 10, 512<<10 + 1, 2, 0},
		{base.Interrupt, false, 70_000, 8 << 10, 140_000, 3, 0}, // windows of whole pages
		{base.Interrupt, false, 64 << 10, 4 << 10, 100, 1, 0},
		{base.Interrupt, true, 64 << 10, 4 << 10, 10_000, 0, 3}, // a page is more than a message holds
		{base.Interrupt, false, 4095, 8 << 10, 10_000, 0, 2},    // or than a window is
	} {
		share := newFakeShare()
		s := newRawServer(t, on, share)
		s.mode, s.textOnly = r.mode, r.textOnly
		s.mu.Lock()
		s.window, s.recvSize = r.window, r.recvSize
		s.mu.Unlock()
		seen := make(chan collapsed, 16)
		s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
			if h.Opcode != wire.OpVecWrite {
				return false
			}
			seen <- collapsed{h, body}
			n, err := c.file(h.Fid).WriteAt(bytes.Repeat(body, int(h.NumPages))[:h.Length], int64(h.Offset))
			c.reply(h, uint32(n), uint32(ntstatus.Of(err)))
			return true
		}
		c := s.connect(base.Config{AllowMD5: true})
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE|Unbuffered, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := do(c, f, page, 0, int64(r.n)); n != int64(r.n) || err != nil {
			t.Fatalf("%+v: %d, %v", r, n, err)
		}
		if !bytes.Equal(share.files["f"].content(), bytes.Repeat(page, r.n/len(page)+1)[:r.n]) {
			t.Errorf("%+v: wrong bytes at the server", r)
		}
		if len(seen) != r.collapses || len((<-s.accepted).seen(wire.OpWrite)) != r.writes {
			t.Errorf("%+v: %d collapsed writes", r, len(seen))
		}
		flags := byte(wire.FlagCollapse | wire.FlagInterrupt)
		if r.mode == base.Polling {
			flags = wire.FlagCollapse
		}
		for range len(seen) {
			m := <-seen
			limits := wire.Limits{MaxRecvBufferSize: r.recvSize, MaxRdmaWindowSize: r.window}
			if err := errors.Join(m.h.Check(wire.HeaderSize+len(m.body), limits), m.h.CheckCollapse(rdmaconn.ProtocolPage, rdmaconn.ProtocolPage, f.options)); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
			if m.h.Flags != flags || !bytes.Equal(m.body, page[:len(m.body)]) {
				t.Errorf("%+v: flags %#x", r, m.h.Flags)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An answer that is short, a refusal, and the end of the connection say how much is
// written for certain.
//
// Source: [OP-112]
func TestCollapsedFailures(t *testing.T) { onEach(t, testCollapsedFailures) }

func testCollapsedFailures(t *testing.T, on string) {
	const window = 64 << 10
	for _, r := range []struct {
		name string
		do   func(c *rawConn, h wire.Header)
		err  error
		done int64
	}{
		{"refused", func(c *rawConn, h wire.Header) { c.reply(h, 0, uint32(ntstatus.DiskFull)) }, ntstatus.DiskFull, window},
		{"short", func(c *rawConn, h wire.Header) { c.reply(h, 9, 0) }, io.ErrShortWrite, window + 9},
		{"lost", func(c *rawConn, _ wire.Header) { c.cut() }, base.ErrUncertain, window},
	} {
		for name, do := range sameWays {
			t.Run(r.name+"/"+name, func(t *testing.T) {
				share := newFakeShare()
				share.put("f", nil)
				s := newRawServer(t, on, share)
				s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
					switch {
					case h.Opcode != wire.OpVecWrite:
						return false
					case h.Offset == 0:
						c.reply(h, h.Length, 0)
					default:
						r.do(c, h)
					}
					return true
				}
				s.grant = 1 // so that one follows the other
				c := s.connect(base.Config{})
				f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|Unbuffered, 0)
				if err != nil {
					t.Fatal(err)
				}
				if n, err := do(c, f, []byte("same"), 0, 2*window+5); n != r.done || !errors.Is(err, r.err) {
					t.Errorf("%d, %v", n, err)
				}
				if n := s.sess.counted(&s.sess.smbWrites); n != 0 {
					t.Errorf("%d writes over SMB", n)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
