package server

import (
	"bytes"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// Reads that succeed in full are completed by immediate data of the last RDMA write if both sides
// want that; all other requests by a status.
//
// Source: [LWIO §Read] [LWIO §Vectored Read] [OP-85] [OP-86] [OP-87]
func TestFullReadsCompleteByImmediateData(t *testing.T) {
	onEach(t, testFullReadsCompleteByImmediateData)
}

func testFullReadsCompleteByImmediateData(t *testing.T, on string) {
	_, v, c, _, fid := gatedEnv(t, envConfig{on: on, immediate: true}) // no read goes straight from a file
	const size = 1 << 20
	data := content(size)
	regions := func(n int) (body []byte) {
		for i := range n {
			to := c.in.RemoteAddr()
			body = wire.RDMARegion{DataVa: to.Addr + uint64(i)*8192, DataMh: uint32(to.Token), Length: 4096}.AppendTo(body)
		}
		return body
	}
	vec := func(offset uint64, n uint16) wire.Header {
		return by(wire.NewVecRead(fid, offset, uint32(n)*4096, n, 4096), completion{Cookie: 1, ImmediateCookie: 0xFFFF0001})
	}
	read := func(offset uint64, length int, immediate uint32) wire.Header {
		h := c.readHeader(fid, offset, uint32(length), 0)
		h.ImmediateCookie = immediate
		return h
	}
	polled := read(0, 100, 0)
	polled.Flags &^= wire.FlagInterrupt
	polled.IosVa, polled.IosMh = c.in.RemoteAddr().Addr+2<<20, uint32(c.in.RemoteAddr().Token)
	for _, r := range []struct {
		name      string
		h         wire.Header
		body      []byte
		immediate bool
		status    ntstatus.Status
		n         int
	}{
		{"full", read(0, 5000, 7), nil, true, 0, 5000},
		{"several writes", read(9, 300_000, 1<<31), nil, true, 0, 300_000}, // the client takes 64 KiB at a time
		{"to the end", read(size-10, 10, 8), nil, true, 0, 10},
		{"no cookie", read(0, 5000, 0), nil, false, 0, 5000},
		{"short", read(size-10, 11, 9), nil, false, 0, 10},
		{"at the end", read(size, 10, 9), nil, false, ntstatus.EndOfFile, 0},
		{"nothing", read(0, 0, 9), nil, false, 0, 0},
		{"refused", read(1<<63, 10, 9), nil, false, ntstatus.InvalidParameter, 0},
		{"vectored", vec(0, 3), regions(3), true, 0, 3 * 4096},
		{"vectored, in parts", vec(0, 160), regions(160), true, 0, 160 * 4096}, // more than a window
		{"vectored, short", vec(size-4096, 2), regions(2), false, 0, 4096},
	} {
		c.immediates = nil
		clear(c.in.Bytes())
		cookie := c.send(r.h, r.body)
		if r.immediate {
			for len(c.immediates) == 0 && c.lost == nil && len(c.got) == 0 {
				c.poll(func(*rdma.Result) bool { return true })
			}
			if !slices.Equal(c.immediates, []uint32{r.h.ImmediateCookie}) || len(c.got) > 0 {
				t.Errorf("%s: immediate data %x, messages %v, %v", r.name, c.immediates, c.got, c.lost)
			}
		} else if s := c.reply(); s.Cookie != cookie || s.Status != uint32(r.status) || int(s.Information) != r.n || len(c.immediates) > 0 {
			t.Errorf("%s: %+v, immediate data %x", r.name, s, c.immediates)
		}
		got := c.in.Bytes()[:r.n]
		if r.body != nil {
			got = nil
			for i := range r.n / 4096 {
				got = append(got, c.in.Bytes()[i*8192:][:4096]...)
			}
		}
		if !bytes.Equal(got, data[min(r.h.Offset, size):][:r.n]) {
			t.Errorf("%s: wrong bytes", r.name)
		}
	}
	c.immediates = nil
	c.send(polled, nil)
	c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 0), nil)
	eventually(t, "a status block", func() bool { return v.e.count.snapshot().Reads.Operations == 9 })
	c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpCancel, 0), nil)
	if len(c.immediates) != 0 {
		t.Error("a polled read was completed by immediate data")
	}
	if n := v.e.count.snapshot().ImmediateReads; n != 5 {
		t.Errorf("%d reads were completed by immediate data", n)
	}
	v.serves()
}

// Without Config.ImmediateData, requests are completed by status responses.
//
// Source: [OP-86]
func TestImmediateDataIsOffByDefault(t *testing.T) { onEach(t, testImmediateDataIsOffByDefault) }

func testImmediateDataIsOffByDefault(t *testing.T, on string) {
	_, v, c, _, fid := gatedEnv(t, envConfig{on: on})
	h := c.readHeader(fid, 0, 5000, 0)
	h.ImmediateCookie = 7
	c.want(ntstatus.Success, 5000, h, nil)
	if n := v.e.count.snapshot().ImmediateReads; n != 0 || len(c.immediates) != 0 {
		t.Errorf("%d reads were completed by immediate data", n)
	}
}
