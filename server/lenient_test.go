package server

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// A client that wants no credits gets one, and deltas go beyond the number that it wanted.
//
// Source: [LWIO §Credits] [OP-50e] [OP-64] [OP-69]
func TestWantedCreditsAreNoBound(t *testing.T) { onEach(t, testWantedCreditsAreNoBound) }

func testWantedCreditsAreNoBound(t *testing.T, on string) {
	for _, wanted := range []uint16{0, 1} {
		v := newEnv(t, envConfig{on: on, limits: Limits{Credits: 4, MaxCredits: 16}})
		n := v.negotiate(v.sess)
		c := v.connect(n)
		c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.Credits = wanted }})
		if c.credits != 1 {
			t.Errorf("%d credits for a client that wants %d", c.credits, wanted)
		}
		c.send(hungry(255), nil)
		c.wantDelta(15)
		c.reply()
		c.want(ntstatus.Success, 0, wire.NewCredit(10), nil)
		if k := v.conn().credits.snapshot(); k.grant != 6 || k.extra != 10 {
			t.Errorf("%+v", k)
		}
	}
}

// The server returns cookies unseen: it answers requests with Cookie 0, and with one cookie
// twice.
//
// Source: [OP-24] [OP-73]
func TestCookiesAreNotChecked(t *testing.T) { onEach(t, testCookiesAreNotChecked) }

func testCookiesAreNotChecked(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", content(100)))
	for _, cookie := range []uint64{0, 7, 7} {
		h := c.readHeader(fid, 0, 100, 0)
		h.Cookie, h.Marker, h.Sequence = cookie, wire.Marker, c.sequence
		c.sequence++
		c.raw(h.AppendTo(nil))
	}
	for _, cookie := range []uint64{0, 7, 7} {
		if s := c.reply(); s.Cookie != cookie || s.Status != 0 || s.Information != 100 {
			t.Errorf("%+v, want cookie %d", s, cookie)
		}
	}
	v.check(c)
}

// The server does not check the alignment of a status block.
//
// Source: [OP-89]
func TestUnalignedStatusBlockIsWritten(t *testing.T) { onEach(t, testUnalignedStatusBlockIsWritten) }

func testUnalignedStatusBlockIsWritten(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", content(100)))
	const at = 1<<20 + 3
	h := c.readHeader(fid, 0, 100, 0)
	h.Flags &^= wire.FlagInterrupt
	h.IosVa, h.IosMh = c.in.RemoteAddr().Addr+at, uint32(c.in.RemoteAddr().Token)
	c.send(h, nil)
	v.check(c) // its answers follow the block
	want := wire.IOStatusBlock{Information: 100}.AppendTo(nil)
	if got := c.in.Bytes()[at : at+len(want)]; !bytes.Equal(got, want) {
		t.Errorf("the status block is %x", got)
	}
}

// A write over an open that may only append goes to the end of the file, at any Offset, alone and
// together with another.
//
// Source: [OP-57] [LWIO §Write]
func TestAppendOnlyOpenWritesAtTheEnd(t *testing.T) { onEach(t, testAppendOnlyOpenWritesAtTheEnd) }

func testAppendOnlyOpenWritesAtTheEnd(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	v.file("a", []byte("0123456789")).Close()
	c := v.client()
	fid := c.register(v.open("a", vfs.AppendData, 0, v.sess))
	c.want(ntstatus.Success, 4, writeHeader(fid, 0, 4), []byte("AAAA"))
	c.send(writeHeader(fid, 0, 2), []byte("BB"))
	c.send(writeHeader(fid, 2, 2), []byte("CC"))
	for range 2 {
		if s := c.reply(); s.Status != 0 || s.Information != 2 {
			t.Errorf("%+v", s)
		}
	}
	if got, err := os.ReadFile(filepath.Join(v.dir, "a")); err != nil || !bytes.HasPrefix(got, []byte("0123456789AAAA")) || len(got) != 18 {
		t.Errorf("the file is %q, %v", got, err)
	}
}
