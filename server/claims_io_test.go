package server

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"lwio"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// Each of the six requests is taken and completed.
//
// Source: [LWIO claim 15] [OP-99]
func TestClaim15(t *testing.T) { onEach(t, testClaim15) }

func testClaim15(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", content(8192)))
	region := wire.RDMARegion{DataVa: c.in.RemoteAddr().Addr, DataMh: uint32(c.in.RemoteAddr().Token), Length: 4096}
	done := completion{Cookie: 5}
	for _, r := range []struct {
		h    wire.Header
		body []byte
		info uint32
	}{
		{c.readHeader(fid, 0, 4096, 0), nil, 4096},
		{writeHeader(fid, 0, 4), []byte("data"), 4},
		{by(wire.NewVecRead(fid, 0, 4096, 1, 4096), done), region.AppendTo(nil), 4096},
		{by(wire.NewVecWrite(fid, 0, 4, 4096), done), []byte("data"), 4},
		{controlHeader(wire.OpCancel, fid), nil, 0},
		{controlHeader(wire.OpClose, fid), nil, 0},
	} {
		c.want(ntstatus.Success, r.info, r.h, r.body)
	}
	c.want(ntstatus.FileClosed, 0, c.readHeader(fid, 0, 4096, 0), nil)
}

// Reads and vectored reads send their data by RDMA Writes; writes and vectored writes
// by the ordinary send of the request, and the answer is an ordinary send too.
//
// Source: [LWIO claim 16] [OP-96] [OP-105]
func TestClaim16(t *testing.T) { onEach(t, testClaim16) }

func testClaim16(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	data := content(40_960)
	f := p.file(p.dial(lwio.Config{Completion: lwio.Interrupt}), "a", data)
	got := make([]byte, len(data))
	var pages [][]byte
	for page := range slices.Chunk(got, 4096) {
		pages = append(pages, page)
	}
	p.wantRead(f, 0, data)
	if n, err := f.ReadVec(t.Context(), pages, 0); n != len(data) || err != nil || !bytes.Equal(got, data) {
		t.Fatal(n, err)
	}
	slices.Reverse(data)
	copy(got, data)
	if n, err := f.WriteAt(got[:20_480], 0); n != 20_480 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := f.WriteVec(t.Context(), pages[5:], 20_480); n != 20_480 || err != nil {
		t.Fatal(n, err)
	}
	p.wantFile("a", data)
	for op, want := range map[wire.Opcode]struct{ messages, written, sent int }{
		wire.OpRead: {1, 40_960, 0}, wire.OpVecRead: {1, 40_960, 16 * 10},
		wire.OpWrite: {1, 0, 20_480}, wire.OpVecWrite: {1, 0, 20_480},
	} {
		list := p.watch.requests(op)
		written, sent := 0, 0
		for _, r := range list {
			for _, w := range r.writes {
				written += w.size
			}
			sent += len(r.body)
			if r.answer == nil {
				t.Errorf("%v was not answered by a send", op)
			}
		}
		if len(list) != want.messages || written != want.written || sent != want.sent {
			t.Errorf("%v: %d messages with %d bytes, %d written by RDMA; want %+v", op, len(list), sent, written, want)
		}
	}
}

// A vectored write with the collapse flag carries one page, and the server writes it
// over and over.
//
// Source: [LWIO claim 17] [OP-75] [OP-76]
func TestClaim17(t *testing.T) { onEach(t, testClaim17) }

func testClaim17(t *testing.T, on string) {
	for _, mode := range []lwio.CompletionMode{lwio.Interrupt, lwio.Polling} {
		p := newPair(t, on, Limits{})
		c := p.dial(lwio.Config{Completion: mode})
		p.file(c, "a", nil).Close()
		f, err := c.OpenFile(t.Context(), "a", 2|lwio.Unbuffered, 0)
		if err != nil {
			t.Fatal(err)
		}
		page := content(4096)
		if n, err := f.WriteSame(t.Context(), page, 0, 200_000); n != 200_000 || err != nil {
			t.Fatal(n, err)
		}
		p.wantFile("a", bytes.Repeat(page, 49)[:200_000])
		list := p.watch.requests(wire.OpVecWrite)
		if len(list) != 1 {
			t.Fatalf("%d vectored writes", len(list))
		}
		h := list[0].h
		if h.Flags&wire.FlagCollapse == 0 || h.Length != 200_000 || !bytes.Equal(list[0].body, page) || h.Interrupt() != (mode == lwio.Interrupt) {
			t.Errorf("%+v with %d bytes", h, len(list[0].body))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The request chooses the mode of its completion.
//
// Source: [LWIO claim 18]
func TestClaim18(t *testing.T) { onEach(t, testClaim18) }

func testClaim18(t *testing.T, on string) {
	for _, mode := range []lwio.CompletionMode{lwio.Interrupt, lwio.Polling} {
		p := newPair(t, on, Limits{})
		c := p.dial(lwio.Config{Completion: mode})
		f := p.file(c, "a", content(5000))
		p.wantRead(f, 0, content(5000))
		read := p.watch.requests(wire.OpRead)
		st := c.Stats()
		if len(read) != 1 || read[0].h.Interrupt() != (mode == lwio.Interrupt) {
			t.Fatalf("%v: %+v", mode, read)
		}
		if polled := uint64(1); mode == lwio.Interrupt && st.Interrupts != 1 || mode == lwio.Polling && st.Polled != polled {
			t.Errorf("%v: %d polled, %d by messages", mode, st.Polled, st.Interrupts)
		}
	}
}

// polledRead is a READ of 100 bytes to the beginning of the client's memory, with its
// status block behind.
func (c *rawClient) polledRead(fid uint16) (h wire.Header, block []byte) {
	const at = 1 << 20
	h = c.readHeader(fid, 0, 100, 0)
	h.Flags &^= wire.FlagInterrupt
	h.IosVa, h.IosMh = c.in.RemoteAddr().Addr+at, uint32(c.in.RemoteAddr().Token)
	block = c.in.Bytes()[at : at+wire.IOStatusBlockSize]
	copy(block, wire.PendingBlock().AppendTo(nil))
	return h, block
}

// The interrupt flag of the header alone makes the difference: with it a status
// message comes, and the place of the status block stays as it is.
//
// Source: [LWIO claim 19] [OP-24] [OP-95]
func TestClaim19(t *testing.T) { onEach(t, testClaim19) }

func testClaim19(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	fid := c.register(v.file("a", content(100)))
	h, block := c.polledRead(fid)
	h.Flags |= wire.FlagInterrupt
	h.ImmediateCookie, h.Cookie = 0, 0
	c.want(ntstatus.Success, 100, h, nil)
	if !bytes.Equal(block, wire.PendingBlock().AppendTo(nil)) {
		t.Error("a status block was written as well")
	}
}

// The status block arrives by RDMA, without a message. The claim and the description attribute that
// to different modes; the server follows the description.
//
// Source: [LWIO claim 20] [OP-95]
func TestClaim20(t *testing.T) { onEach(t, testClaim20) }

func testClaim20(t *testing.T, on string) {
	p := newPair(t, on, Limits{})
	f := p.file(p.dial(lwio.Config{Completion: lwio.Polling}), "a", content(5000))
	p.wantRead(f, 0, content(5000))
	if n, err := f.WriteAt([]byte("hello"), 0); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	for op, information := range map[wire.Opcode]uint32{wire.OpRead: 5000, wire.OpWrite: 5} {
		list := p.watch.requests(op)
		if len(list) != 1 || list[0].answer != nil || len(list[0].writes) == 0 {
			t.Fatalf("%v: %+v", op, list)
		}
		r := &list[0]
		last := r.writes[len(r.writes)-1]
		if last.remote.Addr != r.h.IosVa || uint32(last.remote.Token) != r.h.IosMh {
			t.Fatalf("%v: the last write went to %+v", op, last.remote)
		}
		block := statusBlock(last.data)
		if len(last.data) != wire.IOStatusBlockSize || block.Status != 0 || block.Information != information {
			t.Errorf("%v: %+v in %d bytes", op, block, len(last.data))
		}
	}
}

// A polling client that sent an interrupt request gets the response when a request is
// completed, by an ordinary send, and not before.
//
// Source: [LWIO claim 21] [OP-93a] [OP-93d]
func TestClaim21(t *testing.T) { onEach(t, testClaim21) }

func testClaim21(t *testing.T, on string) {
	b, v, c, _, fid := gatedEnv(t, envConfig{on: on})
	b.shut()
	h, block := c.polledRead(fid)
	c.send(h, nil)
	interrupt := c.send(wire.NewInterrupt(1), nil)
	eventually(t, "the read is in progress", func() bool { return b.waiting() == 1 })
	c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 77), nil) // nothing came before this
	b.open()
	s := c.reply()
	if s.Cookie != interrupt || s.Status != 0 || s.Information != 0 {
		t.Fatalf("the response is %+v", s)
	}
	if got := statusBlock(block); got.Pending() || got.Information != 100 {
		t.Errorf("the response came before the status block: %+v", got)
	}
	v.serves()
}

// The number in the header counts the requests of the client, including requests that wait for
// credits. The server grants at most that number of credits.
//
// Source: [LWIO claim 22] [OP-64] [OP-97]
func TestClaim22(t *testing.T) { onEach(t, testClaim22) }

func testClaim22(t *testing.T, on string) {
	p := newPair(t, on, Limits{Credits: 2, MaxCredits: 16})
	c := p.dial(lwio.Config{Completion: lwio.Interrupt, Credits: 16})
	f := p.file(c, "a", content(5000))
	p.wantRead(f, 0, content(5000))
	if h := p.watch.requests(wire.OpRead)[0].h; h.Credits != 1 {
		t.Errorf("a request that is alone says %d", h.Credits)
	}
	if c.MaxInFlight() != 2 {
		t.Fatalf("%d credits in the beginning", c.MaxInFlight())
	}
	var readers sync.WaitGroup
	for range 12 {
		readers.Go(func() {
			for i := 0; i < 10_000 && c.MaxInFlight() == 2; i++ {
				if _, err := f.ReadAt(make([]byte, 2000), 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	readers.Wait()
	most := 0
	for _, r := range p.watch.requests(wire.OpRead) {
		most = max(most, int(r.h.Credits))
	}
	if n := c.MaxInFlight(); most <= 2 || n <= 2 || n > most {
		t.Errorf("the largest number in a request is %d, and the client has %d credits", most, n)
	}
}

// Claim 7 again, for programs that are stored: the command is built into a file, and
// two processes made of that discover their common provider.
//
// Source: [LWIO claim 23] [OP-43]
func TestClaim23(t *testing.T) {
	program := build(t)
	onEach(t, func(t *testing.T, on string) { testClaim23(t, on, program) })
}

func testClaim23(t *testing.T, on, program string) {
	url := startProgram(t, program, "serve", "--listen", "127.0.0.1:0", "--provider", on, "share="+t.TempDir())
	// The client has all providers, the server one.
	wantDoctor(t, on, runProgram(t, program, "doctor", "--json", url))
	wantBench(t, on, runProgram(t, program, "bench", url, "--size", "1M", "--runtime", "100ms", "--json"))
}

// A delta of -3 is followed by three messages and their answers, one above 0 by one
// message and its answer.
//
// Source: [LWIO claim 24] [OP-67] [OP-70] [OP-98]
func TestClaim24(t *testing.T) { onEach(t, testClaim24) }

func testClaim24(t *testing.T, on string) {
	p := newPair(t, on, Limits{Credits: 8, MaxCredits: 8})
	c := p.dial(lwio.Config{Completion: lwio.Interrupt, Credits: 8})
	f := p.file(c, "a", content(5000))
	conn := p.conn()
	over := func() bool { k := conn.credits.snapshot(); return k.delta == 0 && c.MaxInFlight() == k.grant }
	conn.shrink(3)
	eventually(t, "three credits are given up", func() bool { return over() && c.MaxInFlight() == 5 })
	var readers sync.WaitGroup
	for range 12 { // want more than there are
		readers.Go(func() {
			for i := 0; i < 10_000 && c.MaxInFlight() == 5; i++ {
				if _, err := f.ReadAt(make([]byte, 2000), 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	readers.Wait()
	eventually(t, "credits are back", func() bool { return over() && c.MaxInFlight() > 5 })
	eventually(t, "each CREDIT is answered", func() bool {
		return !slices.ContainsFunc(p.watch.requests(wire.OpCredit), func(r request) bool { return r.answer == nil })
	})
	var want, got []int32
	for _, s := range p.watch.seen() {
		st, ok := s.status()
		switch n := int32(st.Information); {
		case !ok || st.Cookie != 0:
			continue
		case st.Status != wire.NotifyCredit:
			t.Errorf("a delta with status %#x", st.Status)
		case n < 0:
			want = append(want, -3, -2, -1)
		default:
			want = append(want, 0)
		}
	}
	for _, r := range p.watch.requests(wire.OpCredit) {
		n := r.h.CreditCount()
		got = append(got, n)
		if r.answer == nil || r.answer.Information != 0 || r.answer.Status != wire.CreditStatus(n) {
			t.Errorf("CREDIT %d is answered with %+v", n, r.answer)
		}
	}
	if len(want) < 4 || !slices.Equal(got, want) {
		t.Errorf("CREDIT messages %d, want %d", got, want)
	}
}

// conn returns the server's side of the only connection.
func (p *pair) conn() *conn {
	p.t.Helper()
	return (&env{t: p.t, e: p.server.engine}).conn()
}
