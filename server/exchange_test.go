package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// A client sends AUTH, REGISTER, READ, WRITE and CLOSE.
//
// Source: [LWIO §Connection Authentication] [LWIO §File Registration] [LWIO §Read] [LWIO claim 13] [LWIO claim 14] [LWIO claim 15]
// [LWIO §Write] [LWIO §Close]
func TestSessionMessagesGolden(t *testing.T) { onEach(t, testSessionMessagesGolden) }

func testSessionMessagesGolden(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	data := content(300_000)
	fid := c.register(v.file("a", data))

	// A read that the server must split, because the client takes 64 KiB at a time.
	c.want(ntstatus.Success, uint32(len(data)), c.readHeader(fid, 0, 512<<10, 4096), nil)
	if !bytes.Equal(c.in.Bytes()[4096:][:len(data)], data) {
		t.Fatal("the data read differs")
	}
	c.want(ntstatus.Success, 6, writeHeader(fid, 10, 6), []byte("hello!"))
	c.want(ntstatus.Success, 64<<10, writeHeader(fid, 200_000, 64<<10), data[:64<<10])
	copy(data[200_000:], data[:64<<10])
	copy(data[10:], "hello!")
	got, err := os.ReadFile(filepath.Join(v.dir, "a"))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the file differs (%d bytes, %v)", len(got), err)
	}
	c.want(ntstatus.Success, 0, controlHeader(wire.OpClose, fid), nil)

	s := v.e.count.snapshot()
	if s.Reads.Operations != 1 || s.Reads.Bytes != 300_000 || s.Writes.Operations != 2 || s.Registrations != 1 ||
		s.Closes != 1 || s.Files != 0 || s.Authenticated != 1 || s.Credits != clientCredits || s.SequenceGaps != 0 {
		t.Errorf("stats %+v", s)
	}
}

// The parameters of the server in AUTH.
//
// Source: [LWIO §Connection Authentication] [OP-13] [OP-28] [OP-50e] [OP-50g] [OP-61c] [OP-74c]
func TestServerParametersInAuth(t *testing.T) { onEach(t, testServerParametersInAuth) }

func testServerParametersInAuth(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	p := v.client().params
	receive := map[string]uint32{"iwarp": 64 << 10, "shm": 1 << 20}[on] // data by reference takes no memory
	if p.RevID != 0x1001 || p.Endian != 8 || p.PageSize != 4096 || p.BaseSequence != 1 ||
		p.MaxRdmaWindowSize != 512<<10 || p.MaxSendBufferSize != 16 || p.MaxRecvBufferSize != receive ||
		p.HeaderSize != 48 || p.Credits != 32 || p.RdmaReadSupported != 0 {
		t.Errorf("%+v", p)
	}
}

// Source: [OP-50e] [OP-74c]
func TestGrantedCreditsAreBounded(t *testing.T) { onEach(t, testGrantedCreditsAreBounded) }

func testGrantedCreditsAreBounded(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{Credits: 8}})
	for _, g := range []struct{ asked, granted uint16 }{{0, 1}, {1, 1}, {5, 5}, {8, 8}, {9, 8}, {65535, 8}} {
		n := v.negotiate(v.sess)
		c := v.connect(n)
		c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.Credits = g.asked }})
		if c.params.Credits != g.granted {
			t.Errorf("asked for %d, got %d, want %d", g.asked, c.params.Credits, g.granted)
		}
		v.check(c)
		c.connector.Close()
	}
}

// Source: [LWIO §Read] [OP-92a] [OP-92b] [OP-92c] [OP-60] [OP-63] [OP-106] [OP-55]
func TestReadReturnsDataOrItsStatus(t *testing.T) { onEach(t, testReadReturnsDataOrItsStatus) }

func testReadReturnsDataOrItsStatus(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", content(10_000)))
	for _, r := range []struct {
		name   string
		change func(h *wire.Header)
		status ntstatus.Status
		info   uint32
	}{
		{"whole", func(h *wire.Header) {}, ntstatus.Success, 4096},
		{"short at the end", func(h *wire.Header) { h.Offset = 9000 }, ntstatus.Success, 1000},
		{"one byte", func(h *wire.Header) { h.Offset, h.Length = 9999, 1 }, ntstatus.Success, 1},
		{"at the end", func(h *wire.Header) { h.Offset = 10_000 }, ntstatus.EndOfFile, 0},
		{"far behind the end", func(h *wire.Header) { h.Offset = 1 << 40 }, ntstatus.EndOfFile, 0},
		{"nothing", func(h *wire.Header) { h.Length = 0 }, ntstatus.Success, 0},
		{"nothing behind the end", func(h *wire.Header) { h.Offset, h.Length = 20_000, 0 }, ntstatus.Success, 0},
		{"last possible byte", func(h *wire.Header) { h.Offset = math.MaxInt64 - 4096 }, ntstatus.EndOfFile, 0},
		{"beyond 2^63", func(h *wire.Header) { h.Offset = math.MaxInt64 - 4095 }, ntstatus.InvalidParameter, 0},
		{"at 2^63", func(h *wire.Header) { h.Offset = 1 << 63 }, ntstatus.InvalidParameter, 0},
		{"append marker", func(h *wire.Header) { h.Offset = math.MaxUint64 }, ntstatus.InvalidParameter, 0},
		{"above the window", func(h *wire.Header) { h.Length = 512<<10 + 1 }, ntstatus.InvalidParameter, 0},
		{"huge", func(h *wire.Header) { h.Length = math.MaxUint32 }, ntstatus.InvalidParameter, 0},
		{"unknown flag", func(h *wire.Header) { h.Flags |= 1 }, ntstatus.InvalidParameter, 0},
		{"collapse", func(h *wire.Header) { h.Flags |= wire.FlagCollapse }, ntstatus.InvalidParameter, 0},
		{"control flag", func(h *wire.Header) { h.Flags |= wire.FlagControl }, ntstatus.Success, 4096},
		{"fid 0", func(h *wire.Header) { h.Fid = 0 }, ntstatus.FileClosed, 0},
		{"unknown fid", func(h *wire.Header) { h.Fid += 7 }, ntstatus.FileClosed, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			h := c.readHeader(fid, 0, 4096, 0)
			r.change(&h)
			mark := bytes.Repeat([]byte{0xEE}, 8192)
			copy(c.in.Bytes(), mark)
			c.want(r.status, r.info, h, nil)
			want := append(content(10_000)[min(h.Offset, 10_000):][:r.info:r.info], mark[r.info:]...)
			if !bytes.Equal(c.in.Bytes()[:8192], want) {
				t.Error("the data read differs from the data written")
			}
		})
	}
	v.check(c)
}

// Source: [LWIO §Write] [OP-92b] [OP-92c] [OP-55] [OP-106]
func TestWriteStoresDataOrReturnsItsStatus(t *testing.T) {
	onEach(t, testWriteStoresDataOrReturnsItsStatus)
}

func testWriteStoresDataOrReturnsItsStatus(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", nil))
	for _, r := range []struct {
		name   string
		change func(h *wire.Header)
		status ntstatus.Status
		info   uint32
	}{
		{"plain", func(h *wire.Header) {}, ntstatus.Success, 4},
		{"behind the end", func(h *wire.Header) { h.Offset = 1 << 20 }, ntstatus.Success, 4},
		{"beyond 2^63", func(h *wire.Header) { h.Offset = math.MaxInt64 - 3 }, ntstatus.InvalidParameter, 0},
		{"append marker", func(h *wire.Header) { h.Offset = math.MaxUint64 }, ntstatus.InvalidParameter, 0},
		{"unknown flag", func(h *wire.Header) { h.Flags |= 0x10 }, ntstatus.InvalidParameter, 0},
		{"collapse", func(h *wire.Header) { h.Flags |= wire.FlagCollapse }, ntstatus.InvalidParameter, 0},
		{"fid 0", func(h *wire.Header) { h.Fid = 0 }, ntstatus.FileClosed, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			h := writeHeader(fid, 0, 4)
			r.change(&h)
			c.want(r.status, r.info, h, []byte("data"))
		})
	}
	c.want(ntstatus.Success, 0, writeHeader(fid, 5, 0), nil)
	v.check(c)
}

// LWIO grants no right that SMB did not grant.
//
// Source: [OP-57] [OP-92b]
func TestAccessRightsOfTheOpenHold(t *testing.T) { onEach(t, testAccessRightsOfTheOpenHold) }

func testAccessRightsOfTheOpenHold(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	v.file("a", content(100)).Close()
	reader := c.register(v.open("a", vfs.ReadData, 0, v.sess))
	writer := c.register(v.open("a", vfs.WriteData, 0, v.sess))
	stater := c.register(v.open("a", vfs.ReadAttributes, 0, v.sess))
	c.want(ntstatus.Success, 100, c.readHeader(reader, 0, 100, 0), nil)
	c.want(ntstatus.AccessDenied, 0, writeHeader(reader, 0, 4), []byte("data"))
	c.want(ntstatus.AccessDenied, 0, writeHeader(reader, 0, 0), nil)
	c.want(ntstatus.Success, 4, writeHeader(writer, 0, 4), []byte("data"))
	c.want(ntstatus.AccessDenied, 0, c.readHeader(writer, 0, 100, 0), nil)
	c.want(ntstatus.AccessDenied, 0, c.readHeader(stater, 0, 100, 0), nil)
	c.want(ntstatus.AccessDenied, 0, c.readHeader(stater, 0, 0, 0), nil)
	c.want(ntstatus.AccessDenied, 0, writeHeader(stater, 0, 4), []byte("data"))
	v.check(c)
}

// Polled completion: eight bytes in the client's memory, no message.
//
// Source: [LWIO §I/O Processing] [OP-75] [OP-95] [OP-89] [OP-92e] [LWIO claim 18] [LWIO claim 19] [LWIO claim 20]
func TestPolledCompletionWritesStatusBlock(t *testing.T) {
	onEach(t, testPolledCompletionWritesStatusBlock)
}

func testPolledCompletionWritesStatusBlock(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	data := content(100_000)
	fid := c.register(v.file("a", data))
	const at = 1 << 20
	word := c.in.Bytes()[at : at+8]
	poll := func(h wire.Header, body []byte) wire.IOStatusBlock {
		t.Helper()
		copy(word, wire.PendingBlock().AppendTo(nil))
		h.Flags &^= wire.FlagInterrupt
		h.IosVa, h.IosMh = c.in.RemoteAddr().Addr+at, uint32(c.in.RemoteAddr().Token)
		c.send(h, body)
		// The answer to a later message follows the block: placement is in order.
		c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 0), nil)
		for {
			b := statusBlock(word)
			if !b.Pending() {
				return b
			}
			c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 0), nil)
		}
	}
	if b := poll(c.readHeader(fid, 0, 100_000, 0), nil); b.Status != 0 || b.Information != 100_000 {
		t.Errorf("READ: %+v", b)
	}
	if !bytes.Equal(c.in.Bytes()[:len(data)], data) {
		t.Error("the data read differs")
	}
	if b := poll(writeHeader(fid, 0, 5), []byte("hello")); b.Status != 0 || b.Information != 5 {
		t.Errorf("WRITE: %+v", b)
	}
	unbuffered := c.register(v.open("a", vfs.WriteData, vfs.NoIntermediateBuffering, v.sess))
	collapse := by(wire.NewCollapse(unbuffered, 5, 10_000, 4096), completion{Polling: true})
	if b := poll(collapse, data[:4096]); b.Status != 0 || b.Information != 10_000 {
		t.Errorf("VEC_WRITE, collapsed: %+v", b)
	}
	got, err := os.ReadFile(filepath.Join(v.dir, "a"))
	if err != nil || !bytes.Equal(got[:10_005], append([]byte("hello"), bytes.Repeat(data[:4096], 3)[:10_000]...)) {
		t.Errorf("the data written differs, %v", err)
	}
	if b := poll(c.readHeader(99, 0, 1, 0), nil); b.Status != uint32(ntstatus.FileClosed) {
		t.Errorf("READ of no file: %+v", b)
	}
	h := c.readHeader(fid, 0, 1, 0)
	h.Flags |= 0x02
	if b := poll(h, nil); b.Status != uint32(ntstatus.InvalidParameter) {
		t.Errorf("READ with a strange flag: %+v", b)
	}
	v.check(c)
}

// Source: [LWIO §Vectored Read] [OP-8] [OP-60b] [OP-82] [OP-83] [OP-84]
func TestVecReadScattersData(t *testing.T) { onEach(t, testVecReadScattersData) }

func testVecReadScattersData(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{MaxRDMAWindowSize: 64 << 10}})
	c := v.client()
	data := content(1 << 20)
	fid := c.register(v.file("a", data))
	unbuffered := c.register(v.open("a", vfs.ReadData, vfs.NoIntermediateBuffering, v.sess))
	base := c.in.RemoteAddr()
	regions := func(page, count, last int, to func(i int) int) []byte {
		var b []byte
		for i := range count {
			n := page
			if i == count-1 {
				n = last
			}
			b = wire.RDMARegion{DataVa: base.Addr + uint64(to(i)), DataMh: uint32(base.Token), Length: uint32(n)}.AppendTo(b)
		}
		return b
	}
	vec := func(fid uint16, offset uint64, length, count, page int) wire.Header {
		h := by(wire.NewVecRead(fid, offset, uint32(length), uint16(count), uint16(page)), completion{Cookie: 5})
		h.Cookie = 0
		h.DataVa = 0xDEAD // no memory of the client
		return h
	}
	// Backwards, 200 pages: more than the window, so in parts.
	backwards := func(i int) int { return (199 - i) * 4096 }
	clear(c.in.Bytes())
	c.want(ntstatus.Success, 200*4096, vec(fid, 4096, 200*4096, 200, 4096), regions(4096, 200, 4096, backwards))
	for i := range 200 {
		if !bytes.Equal(c.in.Bytes()[backwards(i):][:4096], data[4096+i*4096:][:4096]) {
			t.Fatalf("page %d differs", i)
		}
	}
	// The file ends within: short, also exactly at the end of a part.
	c.want(ntstatus.Success, 100, vec(fid, 1<<20-100, 8192, 2, 4096), regions(4096, 2, 4096, backwards))
	c.want(ntstatus.Success, 64<<10, vec(fid, 1<<20-64<<10, 20*4096, 20, 4096), regions(4096, 20, 4096, backwards))
	c.want(ntstatus.EndOfFile, 0, vec(fid, 1<<20, 8192, 2, 4096), regions(4096, 2, 4096, backwards))
	c.want(ntstatus.Success, 0, vec(fid, 0, 0, 1, 4096), regions(4096, 1, 1, backwards))
	c.want(ntstatus.Success, 4197, vec(fid, 0, 4197, 2, 4096), regions(4096, 2, 101, backwards))
	// Rules.
	c.want(ntstatus.InvalidParameter, 0, vec(fid, 0, 4198, 2, 4096), regions(4096, 2, 101, backwards))
	c.want(ntstatus.InvalidParameter, 0, vec(fid, 0, 4096, 2, 4096), regions(512, 2, 4096, backwards))
	c.want(ntstatus.InvalidParameter, 0, vec(fid, 0, 4096, 2, 4096), regions(4096, 2, 0, backwards))
	c.want(ntstatus.InvalidParameter, 0, vec(fid, 0, 4096, 0, 4096), nil)
	c.want(ntstatus.InvalidParameter, 0, vec(unbuffered, 0, 4197, 2, 4096), regions(4096, 2, 101, backwards))
	c.want(ntstatus.Success, 4608, vec(unbuffered, 0, 4608, 2, 4096), regions(4096, 2, 512, backwards))
	c.want(ntstatus.FileClosed, 0, vec(77, 0, 4096, 1, 4096), regions(4096, 1, 4096, backwards))
	v.check(c)
}

// A vectored read of as many regions as a message holds, more than the queue of
// a connection has room for.
//
// Source: [LWIO §Vectored Read] [OP-60b]
func TestVecReadFillsMoreRegionsThanEntries(t *testing.T) {
	onEach(t, testVecReadFillsMoreRegionsThanEntries)
}

func testVecReadFillsMoreRegionsThanEntries(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	data := content(4096 * 512)
	fid := c.register(v.file("a", data))
	var body []byte
	for i := range 4096 {
		body = wire.RDMARegion{
			DataVa: c.in.RemoteAddr().Addr + uint64(i*512), DataMh: uint32(c.in.RemoteAddr().Token), Length: 512,
		}.AppendTo(body)
	}
	h := by(wire.NewVecRead(fid, 0, uint32(len(data)), 4096, 512), completion{Cookie: 9})
	c.want(ntstatus.Success, uint32(len(data)), h, body)
	if !bytes.Equal(c.in.Bytes()[:len(data)], data) {
		t.Error("the data read differs")
	}
	v.check(c)
}

// Source: [LWIO §Vectored Write] [OP-75] [OP-76] [OP-77] [OP-78] [OP-79] [OP-80] [LWIO claim 17]
func TestVecWriteRepeatsCollapsedPage(t *testing.T) { onEach(t, testVecWriteRepeatsCollapsedPage) }

func testVecWriteRepeatsCollapsedPage(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	v.file("a", nil).Close()
	buffered := c.register(v.open("a", vfs.WriteData, 0, v.sess))
	fid := c.register(v.open("a", vfs.WriteData, vfs.NoIntermediateBuffering, v.sess))
	h := by(wire.NewVecWrite(buffered, 3, 6, 4096), completion{Cookie: 1})
	h.NumPages, h.PageSize = 999, 17 // have no meaning
	c.want(ntstatus.Success, 6, h, []byte("gather"))

	page := content(4096)
	collapse := func(fid uint16, length uint32) wire.Header {
		return by(wire.NewCollapse(fid, 9, length, 4096), completion{Cookie: 1})
	}
	c.want(ntstatus.Success, 10_000, collapse(fid, 10_000), page)
	got, err := os.ReadFile(filepath.Join(v.dir, "a"))
	want := append([]byte("\x00\x00\x00gather"), bytes.Repeat(page, 3)[:10_000]...)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the file differs (%d bytes, %v)", len(got), err)
	}
	c.want(ntstatus.Success, 100, collapse(fid, 100), page[:100])
	c.want(ntstatus.Success, 0, collapse(fid, 0), nil)
	c.want(ntstatus.Success, 512<<10, collapse(fid, 512<<10), page)
	c.want(ntstatus.InvalidParameter, 0, collapse(fid, 512<<10+1), page)
	c.want(ntstatus.InvalidParameter, 0, collapse(buffered, 10_000), page)
	wrong := collapse(fid, 10_000)
	wrong.NumPages++
	c.want(ntstatus.InvalidParameter, 0, wrong, page)
	other := by(wire.NewCollapse(fid, 9, 10_000, 8192), completion{Cookie: 1})
	c.want(ntstatus.InvalidParameter, 0, other, append(page, page...))
	v.check(c)
}

// The bytes of one exchange.
//
// Source: [LWIO §Connection Authentication] [LWIO §Read] [OP-11]
func TestReadAndAnswerGolden(t *testing.T) { onEach(t, testReadAndAnswerGolden) }

func testReadAndAnswerGolden(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", []byte("0123456789")))
	msg := make([]byte, 48)
	binary.LittleEndian.PutUint32(msg[0:], 4)
	copy(msg[4:], []byte{0x00, 0x80, 0x00, 0xFF})
	binary.LittleEndian.PutUint16(msg[8:], fid)
	binary.LittleEndian.PutUint64(msg[16:], 3)
	binary.LittleEndian.PutUint64(msg[24:], c.in.RemoteAddr().Addr+8)
	binary.LittleEndian.PutUint32(msg[32:], uint32(c.in.RemoteAddr().Token))
	binary.LittleEndian.PutUint64(msg[40:], 0x1122334455667788)
	c.raw(msg)
	c.reply()
	want := []byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 4, 0, 0, 0, 0, 0, 0, 0}
	found := false
	for at := 0; at+16 <= len(c.replies.Bytes()); at += 16 {
		found = found || bytes.Equal(c.replies.Bytes()[at:at+16], want)
	}
	if !found || string(c.in.Bytes()[8:12]) != "3456" {
		t.Error("the answer differs")
	}
}
