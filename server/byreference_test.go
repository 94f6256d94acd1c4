package server

import (
	"bytes"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/internal/wire"
	"lwio/rdma"
)

// sendByReference sends a message in two parts, the second of which is by reference.
func (c *rawClient) sendByReference(h wire.Header, here, remote []byte) {
	c.t.Helper()
	c.sendByReferenceAt(0, h, here, remote)
}

// sendByReferenceAt is sendByReference with memory from an offset on; it returns the message's cookie.
func (c *rawClient) sendByReferenceAt(at int, h wire.Header, here, remote []byte) uint64 {
	c.t.Helper()
	c.cookie++
	h.Marker, h.Sequence, h.Cookie = wire.Marker, c.sequence, c.cookie
	c.sequence++
	first := copy(c.out.Bytes(), append(h.AppendTo(nil), here...))
	copy(c.in.Bytes()[at:], remote)
	c.sendByReferenceSGL([]rdma.SGE{{Region: c.out, Length: first}, {Region: c.in, Offset: at, Length: len(remote)}})
	return c.cookie
}

func (c *rawClient) sendByReferenceSGL(sgl []rdma.SGE) {
	c.t.Helper()
	if _, err := c.qp.Post([]rdma.Request{{Op: rdma.OpSend, Flags: rdma.FlagByReference, SGL: sgl}}); err != nil {
		c.lost = err
		return
	}
	for !c.poll(func(r *rdma.Result) bool { return r.Op == rdma.OpSend }) {
	}
}

// exposesMemory makes the server know the client's memory, so that data in it can be by reference.
func (c *rawClient) exposesMemory(fid uint16) {
	c.t.Helper()
	for n := c.v.e.count.byReference.Load(); c.v.e.count.byReference.Load() == n; {
		c.sendByReference(writeHeader(fid, 0, 5), nil, []byte("first"))
		if s := c.reply(); s.Status != 0 || s.Information != 5 {
			c.t.Fatalf("%v, information %d", ntstatus.Status(s.Status), s.Information)
		}
	}
}

// Data by reference goes to the file as if it had been sent, also if only a part of it is by
// reference; so does the body of another message than a write.
//
// Source: [LWIO §Write] [OP-61]
func TestDataByReferenceGoesToTheFile(t *testing.T) { onEach(t, testDataByReferenceGoesToTheFile) }

func testDataByReferenceGoesToTheFile(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.client()
	o := v.file("f", nil)
	fid := c.register(o)
	if on == "shm" {
		c.exposesMemory(fid)
	}
	size := int(c.params.MaxRecvBufferSize)
	data := content(size)
	before := v.e.count.byReference.Load()
	for _, here := range []int{0, 1, 100, 400} {
		clear(c.in.Bytes())
		c.want(0, uint32(size), writeHeader(fid, 0, size), make([]byte, size))
		c.sendByReference(writeHeader(fid, 0, size), data[:here], data[here:])
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
	c.sendByReference(by(wire.NewVecRead(fid, 0, 4096, 1, 4096), completion{Cookie: 1}), nil, region)
	if s := c.reply(); s.Status != 0 || s.Information != 4096 || !bytes.Equal(c.in.Bytes()[1<<20:][:4096], data[:4096]) {
		t.Fatalf("a VEC_READ whose regions are by reference: %v, information %d", ntstatus.Status(s.Status), s.Information)
	}
}

// A header by reference ends the connection, as the server never interprets memory of the
// client; so does more data than a message may have.
//
// Source: [OP-27]
func TestWrongMessagesByReferenceEndConnection(t *testing.T) {
	for name, wrong := range map[string]func(c *rawClient, fid uint16){
		"header": func(c *rawClient, fid uint16) {
			h := writeHeader(fid, 0, 5000)
			h.Marker, h.Sequence, h.Cookie = wire.Marker, c.sequence, 7
			copy(c.in.Bytes(), h.AppendTo(nil))
			c.sendByReferenceSGL([]rdma.SGE{{Region: c.in, Length: wire.HeaderSize + 5000}})
		},
		"too much": func(c *rawClient, fid uint16) {
			n := int(c.params.MaxRecvBufferSize) + 1
			c.sendByReference(writeHeader(fid, 0, n), nil, make([]byte, n))
		},
		"less than it says": func(c *rawClient, fid uint16) {
			c.sendByReference(writeHeader(fid, 0, 100), nil, make([]byte, 99))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if providers["shm"] == nil {
				skip.Test(t, "no provider takes data by reference")
			}
			v := newEnv(t, envConfig{on: "shm"})
			c := v.client()
			o := v.file("f", nil)
			fid := c.register(o)
			c.exposesMemory(fid)
			wrong(c, fid)
			c.wantCut()
			v.wantContent(o, "first")
		})
	}
}
