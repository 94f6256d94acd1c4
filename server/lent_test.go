package server

import (
	"bytes"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/internal/wire"
	"lwio/rdma"
)

// lend sends a message in two parts, the second of which is lent.
func (c *rawClient) lend(h wire.Header, here, lent []byte) {
	c.t.Helper()
	c.lendAt(0, h, here, lent)
}

// lendAt is lend of memory from that offset on; it returns the message's cookie.
func (c *rawClient) lendAt(at int, h wire.Header, here, lent []byte) uint64 {
	c.t.Helper()
	c.cookie++
	h.Marker, h.Sequence, h.Cookie = wire.Marker, c.sequence, c.cookie
	c.sequence++
	first := copy(c.out.Bytes(), append(h.AppendTo(nil), here...))
	copy(c.in.Bytes()[at:], lent)
	c.lendRaw([]rdma.SGE{{Region: c.out, Length: first}, {Region: c.in, Offset: at, Length: len(lent)}})
	return c.cookie
}

func (c *rawClient) lendRaw(sgl []rdma.SGE) {
	c.t.Helper()
	if _, err := c.qp.Post([]rdma.Request{{Op: rdma.OpSend, Flags: rdma.FlagByReference, SGL: sgl}}); err != nil {
		c.lost = err
		return
	}
	for !c.poll(func(r *rdma.Result) bool { return r.Op == rdma.OpSend }) {
	}
}

// lends lets the server know the client's memory, so that what is lent is from then on.
func (c *rawClient) lends(fid uint16) {
	c.t.Helper()
	for n := c.v.e.count.byReference.Load(); c.v.e.count.byReference.Load() == n; {
		c.lend(writeHeader(fid, 0, 5), nil, []byte("first"))
		if s := c.reply(); s.Status != 0 || s.Information != 5 {
			c.t.Fatalf("%v, information %d", ntstatus.Status(s.Status), s.Information)
		}
	}
}

// What is lent of a write comes to the file as if it had been sent, also if only a part
// of the data is lent, and of another message than a write.
//
// Source: [LWIO §Write] [OP-61]
func TestLent(t *testing.T) { onEach(t, testLent) }

func testLent(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	o := v.file("f", nil)
	fid := c.register(o)
	if on == "shm" {
		c.lends(fid)
	}
	size := int(c.params.MaxRecvBufferSize)
	data := content(size)
	before := v.e.count.byReference.Load()
	for _, here := range []int{0, 1, 100, 400} {
		clear(c.in.Bytes())
		c.want(0, uint32(size), writeHeader(fid, 0, size), make([]byte, size))
		c.lend(writeHeader(fid, 0, size), data[:here], data[here:])
		if s := c.reply(); s.Status != 0 || s.Information != uint32(size) {
			t.Fatalf("%v, information %d", ntstatus.Status(s.Status), s.Information)
		}
		v.wantContent(o, string(data))
	}
	if n := v.e.count.byReference.Load() - before; n != map[string]uint64{"iwarp": 0, "shm": 1}[on] {
		t.Errorf("%d writes came from the client's memory", n)
	}
	to := c.in.RemoteAddr()
	region := wire.RDMARegion{DataVa: to.Addr + 1<<20, DataMh: uint32(to.Token), Length: 4096}.AppendTo(nil)
	c.lend(by(wire.NewVecRead(fid, 0, 4096, 1, 4096), completion{Cookie: 1}), nil, region)
	if s := c.reply(); s.Status != 0 || s.Information != 4096 || !bytes.Equal(c.in.Bytes()[1<<20:][:4096], data[:4096]) {
		t.Fatalf("a VEC_READ whose regions are lent: %v, information %d", ntstatus.Status(s.Status), s.Information)
	}
}

// Who lends a header breaks the rules: nothing in a client's memory is ever looked at. So
// does who lends more than a message may have.
//
// Source: [OP-27]
func TestLentWrong(t *testing.T) {
	for name, wrong := range map[string]func(c *rawClient, fid uint16){
		"header": func(c *rawClient, fid uint16) {
			h := writeHeader(fid, 0, 5000)
			h.Marker, h.Sequence, h.Cookie = wire.Marker, c.sequence, 7
			copy(c.in.Bytes(), h.AppendTo(nil))
			c.lendRaw([]rdma.SGE{{Region: c.in, Length: wire.HeaderSize + 5000}})
		},
		"too much": func(c *rawClient, fid uint16) {
			n := int(c.params.MaxRecvBufferSize) + 1
			c.lend(writeHeader(fid, 0, n), nil, make([]byte, n))
		},
		"less than it says": func(c *rawClient, fid uint16) {
			c.lend(writeHeader(fid, 0, 100), nil, make([]byte, 99))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if providers["shm"] == nil {
				skip.Test(t, "no provider that lends")
			}
			v := newEnv(t, envConfig{on: "shm"})
			c := v.client()
			o := v.file("f", nil)
			fid := c.register(o)
			c.lends(fid)
			wrong(c, fid)
			c.wantCut()
			v.wantContent(o, "first")
		})
	}
}
