package fileio

import (
	"bytes"
	"context"
	"net/netip"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// immediate puts data into the client's memory, with immediate data.
func (c *rawConn) immediate(va uint64, mh uint32, data []byte, v uint32) {
	to := rdma.RemoteAddr{Addr: va, Token: rdma.RemoteToken(mh)}
	c.request(rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagImmediate, Immediate: v, Remote: to}, data)
}

// byImmediate answers a read of all that was asked for by immediate data of the last
// write.
func (c *rawConn) byImmediate(h wire.Header, body []byte) bool {
	if h.Opcode != wire.OpRead && h.Opcode != wire.OpVecRead {
		return false
	}
	buf := make([]byte, h.Length)
	if n, err := c.file(h.Fid).ReadAt(buf, int64(h.Offset)); err != nil || n < len(buf) || h.ImmediateCookie == 0 {
		return false
	}
	va, mh := h.DataVa, h.DataMh
	for i := 0; i < int(h.NumPages); i++ {
		r := wire.RegionAt(body, i)
		va, mh = r.DataVa, r.DataMh
		if i < int(h.NumPages)-1 {
			c.write(va, mh, buf[:r.Length:r.Length])
			buf = buf[r.Length:]
		}
	}
	c.immediate(va, mh, buf, h.ImmediateCookie)
	return true
}

// A read may be completed by immediate data or by a message; the server chooses each
// time.
//
// Source: [LWIO §Read], [LWIO §Vectored Read], [OP-85], [OP-86], [OP-87]
func TestReadsByImmediateData(t *testing.T) { onEach(t, testReadsByImmediateData) }

func testReadsByImmediateData(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(300_000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	other := false
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		other = !other
		return other && c.byImmediate(h, body)
	}
	c := s.connect(base.Config{RequireRDMA: true})
	f := openOn(t, c, "f")
	for range 3 {
		for _, n := range []int{1, 1000, 5000, 65_536, 200_000} {
			p := make([]byte, n)
			if got, err := f.ReadAt(p, 77); got != n || err != nil || !bytes.Equal(p, want[77:][:n]) {
				t.Fatalf("%d bytes: %d, %v", n, got, err)
			}
		}
		p := make([]byte, 50_000)
		if n, err := f.ReadVec(t.Context(), cut(p, 4096), 5); n != len(p) || err != nil || !bytes.Equal(p, want[5:][:n]) {
			t.Fatalf("vectored: %d, %v", n, err)
		}
		b := c.NewBatch(8)
		for i := range uint64(8) {
			if err := b.Read(f, p[i*3000:][:3000], int64(i)*3000, i); err != nil {
				t.Fatal(err)
			}
		}
		done, err := b.Wait(t.Context(), 8)
		for _, d := range done {
			if d.Err != nil || d.N != 3000 {
				t.Errorf("%+v", d)
			}
		}
		if err != nil || len(done) != 8 || !bytes.Equal(p[:24_000], want[:24_000]) {
			t.Errorf("a batch: %d done, %v", len(done), err)
		}
		b.Close()
	}
	cn := c.Live()
	waitFor(t, func() bool { return freeCredits(cn) == 16 })
}

// Immediate data for a read that was given up gives its credit back.
//
// Source: [OP-66], [OP-85], [OP-113]
func TestLateImmediateData(t *testing.T) { onEach(t, testLateImmediateData) }

func testLateImmediateData(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100))
	s := newRawServer(t, on, share)
	held := make(chan func() bool, 1)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpRead {
			held <- func() bool { return c.byImmediate(h, body) }
		}
		return h.Opcode == wire.OpRead
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	cn := c.Live()
	ctx := dueWhen(t, func() bool { return len(held) == 1 })
	p := make([]byte, 10)
	if _, err := f.ReadAtContext(ctx, p, 0); err == nil {
		t.Fatal("the server has not answered")
	}
	if !(<-held)() {
		t.Fatal("no immediate data")
	}
	waitFor(t, func() bool { return freeCredits(cn) == 16 })
	if !bytes.Equal(p, make([]byte, 10)) || !c.Transport().RDMA() {
		t.Errorf("%x, %v", p, c.Transport())
	}
}

// Immediate data that no outstanding read has named ends the connection, and does
// nothing else.
//
// Source: [OP-85]
func TestHostileImmediateData(t *testing.T) { onEach(t, testHostileImmediateData) }

func testHostileImmediateData(t *testing.T, on string) {
	for name, hostile := range map[string]struct {
		op     wire.Opcode // during which
		mode   base.CompletionMode
		answer func(c *rawConn, h wire.Header)
	}{
		"no request":         {op: wire.OpRead, answer: func(c *rawConn, _ wire.Header) { c.immediate(0, 0, nil, 0) }},
		"no such request":    {op: wire.OpRead, answer: func(c *rawConn, _ wire.Header) { c.immediate(0, 0, nil, indexMask) }},
		"an unused request":  {op: wire.OpRead, answer: func(c *rawConn, h wire.Header) { c.immediate(0, 0, nil, h.ImmediateCookie+1) }},
		"an earlier request": {op: wire.OpRead, answer: func(c *rawConn, h wire.Header) { c.immediate(0, 0, nil, h.ImmediateCookie-1<<indexBits) }},
		"twice": {op: wire.OpRead, answer: func(c *rawConn, h wire.Header) {
			c.status(h.Cookie, 0, uint32(ntstatus.DiskFull))
			c.immediate(0, 0, nil, h.ImmediateCookie)
		}},
		"and a message": {op: wire.OpRead, answer: func(c *rawConn, h wire.Header) {
			c.immediate(h.DataVa, h.DataMh, pattern(int(h.Length)), h.ImmediateCookie)
			c.status(h.Cookie, h.Length, 0)
		}},
		"a write":       {op: wire.OpWrite, answer: func(c *rawConn, h wire.Header) { c.immediate(0, 0, nil, uint32(h.Cookie)) }},
		"REGISTER":      {op: wire.OpRegister, answer: func(c *rawConn, h wire.Header) { c.immediate(0, 0, nil, uint32(h.Cookie)) }},
		"a polled read": {op: wire.OpRead, mode: base.Polling, answer: func(c *rawConn, _ wire.Header) { everyRequest(c) }},
	} {
		t.Run(name, func(t *testing.T) {
			share := newFakeShare()
			share.put("f", pattern(3000))
			s := newRawServer(t, on, share)
			if s.mode = base.Interrupt; hostile.mode != 0 {
				s.mode = hostile.mode
			}
			s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
				if h.Opcode == hostile.op {
					hostile.answer(c, h)
				}
				return h.Opcode == hostile.op
			}
			c := s.connect(base.Config{})
			f := openOn(t, c, "f")
			p := make([]byte, 3000)
			n, err := f.ReadAt(p, 0)
			if hostile.op == wire.OpWrite {
				n, err = f.WriteAt(p, 0)
			}
			if err == nil && n != len(p) {
				t.Errorf("%d bytes without an error", n)
			}
			waitFor(t, func() bool { return !c.Transport().RDMA() })
			if n, err := f.ReadAt(p, 0); n != len(p) || err != nil {
				t.Errorf("over SMB: %d, %v", n, err)
			}
		})
	}
}

// everyRequest guesses the possible immediate cookies.
func everyRequest(c *rawConn) {
	for generation := range uint32(4) {
		for index := range uint32(8) {
			c.immediate(0, 0, nil, generation<<indexBits|index+1)
		}
	}
}

// withoutImmediate is a provider whose adapters have no immediate data.
type withoutImmediate struct{ rdma.Provider }

func (p withoutImmediate) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return adapterWithoutImmediate{a}, err
}

type adapterWithoutImmediate struct{ rdma.Adapter }

func (a adapterWithoutImmediate) Info() rdma.AdapterInfo {
	info := a.Adapter.Info()
	info.Caps &^= rdma.CapImmediate
	return info
}

// A client whose adapter cannot take immediate data names no cookie.
//
// Source: [OP-86]
func TestNoImmediateCookie(t *testing.T) { onEach(t, testNoImmediateCookie) }

func testNoImmediateCookie(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(3000))
	s := newRawServer(t, on, share)
	var providers []rdma.Provider
	for _, p := range defaults() {
		providers = append(providers, withoutImmediate{p})
	}
	c := s.connect(base.Config{Providers: providers})
	if _, err := openOn(t, c, "f").ReadAt(make([]byte, 100), 0); err != nil {
		t.Fatal(err)
	}
	for _, h := range (<-s.accepted).seen(wire.OpRead) {
		if h.ImmediateCookie != 0 || h.Cookie == 0 {
			t.Errorf("%+v", h)
		}
	}
}
