package rdmatest

import (
	"math"
	"os"
	"reflect"

	"lwio/rdma"
)

var memoryCases = []Case{
	{Name: "memory/register", Source: "[ND MemoryRegion.Register], [ND MemoryRegion.GetRemoteToken]", run: register},
	{Name: "memory/invalid-buffer", Source: "[ND NdMRInvalidBuffer]", run: invalidBuffer},
	{Name: "memory/alloc", Source: "[ND Adapter.CreateMemoryRegion]", run: alloc},
	{Name: "memory/bad-sge", Source: "[ND ND2_RESULT]", run: badSGE},
	{Name: "memory/receive-needs-local-write", Source: "[ND MR flags]", run: receiveNeedsLocalWrite},
}

func register(r *rig) {
	a := r.adapter()
	buf := make([]byte, 3*4096+5)
	tokens := make(map[rdma.RemoteToken]bool)
	for _, access := range []rdma.Access{0, rdma.AccessLocalWrite, rdma.AccessRemoteRead, rdma.AccessRemoteWrite, rdma.AccessReadSink} {
		for _, part := range [][]byte{buf, buf, buf[1:2], buf[:4096]} {
			m := r.region(a, part, access)
			if got := m.Bytes(); len(got) != len(part) || &got[0] != &part[0] {
				r.Error("the region's bytes are not those that were registered")
			}
			if m.Access() != access {
				r.Errorf("access is %#x, want %#x", m.Access(), access)
			}
			at := m.RemoteAddr()
			if at.Addr == uint64(reflect.ValueOf(part).Pointer()) {
				r.Error("the remote address is a pointer of this process")
			}
			if at.Addr > math.MaxUint64-uint64(len(part)) {
				r.Errorf("the region at %#x wraps around", at.Addr)
			}
			if tokens[at.Token] {
				r.Errorf("token %#x was given twice", at.Token)
			}
			tokens[at.Token] = true
		}
	}
}

func invalidBuffer(r *rig) {
	a := r.adapter()
	for _, c := range []struct {
		what string
		buf  []byte
		want rdma.Status
	}{
		{"nil", nil, rdma.StatusInvalidParameter},
		{"empty", []byte{}, rdma.StatusInvalidBufferSize},
	} {
		m, err := a.RegisterMemory(r.ctx(), c.buf, rdma.AccessRemoteWrite)
		if err == nil {
			r.closeNow("region", m)
		}
		r.fails("register "+c.what, err, c.want)
	}
}

func alloc(r *rig) {
	a := r.adapter()
	for _, size := range []int{1, 4096, 100_000} {
		m, err := a.Alloc(r.ctx(), size)
		r.ok("alloc", err)
		if got := len(m.Bytes()); got < size || got%os.Getpagesize() != 0 {
			r.Errorf("asked for %d bytes, got %d", size, got)
		}
		if !zero(m.Bytes()) {
			r.Error("fresh memory is not zeroed")
		}
		fill(m.Bytes())
		region, err := a.RegisterMemory(r.ctx(), m.Bytes(), rdma.AccessRemoteWrite)
		r.ok("register", err)
		r.closeNow("region", region)
		r.closeNow("memory", m)
		r.closeNow("memory again", m)
	}
	for _, size := range []int{0, -1, math.MinInt} {
		if m, err := a.Alloc(r.ctx(), size); err == nil {
			r.closeNow("memory", m)
			r.Errorf("alloc of %d bytes succeeds", size)
		}
	}
}

// badSGE checks that the post refuses memory outside the regions of the adapter, and that
// the connection continues to work.
func badSGE(r *rig) {
	active, passive := r.pair(shape{memory: 4096})
	closed, err := active.adapter.RegisterMemory(r.ctx(), make([]byte, 64), rdma.AccessRemoteWrite)
	r.ok("register", err)
	r.closeNow("region", closed)
	foreign := r.region(r.adapter(), make([]byte, 64), rdma.AccessRemoteWrite)
	for _, c := range []struct {
		what string
		sge  rdma.SGE
	}{
		{"one byte too long", rdma.SGE{Region: active.region, Offset: 0, Length: 4097}},
		{"one byte too far", rdma.SGE{Region: active.region, Offset: 1, Length: 4096}},
		{"before the region", rdma.SGE{Region: active.region, Offset: -1, Length: 1}},
		{"negative length", rdma.SGE{Region: active.region, Offset: 10, Length: -1}},
		{"sum that wraps", rdma.SGE{Region: active.region, Offset: math.MaxInt, Length: 2}},
		{"no region", rdma.SGE{Length: 1}},
		{"closed region", rdma.SGE{Region: closed, Length: 1}},
		{"region of another adapter", rdma.SGE{Region: foreign, Length: 1}},
	} {
		sgl := []rdma.SGE{c.sge}
		for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
			n, err := active.qp.Post([]rdma.Request{{Op: op, SGL: sgl, Remote: passive.at(0)}})
			if n != 0 {
				r.Errorf("%v, %s: took %d", op, c.what, n)
			}
			r.fails(op.String()+", "+c.what, err, rdma.StatusAccessViolation)
		}
		n, err := active.qp.PostReceive([]rdma.ReceiveRequest{{SGL: sgl}})
		if n != 0 {
			r.Errorf("receive, %s: took %d", c.what, n)
		}
		r.fails("receive, "+c.what, err, rdma.StatusAccessViolation)
	}
	active.deliver(passive)
}

// receiveNeedsLocalWrite checks that an adapter does not write memory without the right
// of local write. It may refuse the post or fail the receive.
func receiveNeedsLocalWrite(r *rig) {
	active, passive := r.pair(shape{})
	buf := make([]byte, 16)
	locked := r.region(passive.adapter, buf, rdma.AccessRemoteRead&^rdma.AccessLocalWrite)
	n, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{SGL: []rdma.SGE{{Region: locked, Length: 16}}}})
	if err != nil {
		r.fails("receive into memory without local write", err, rdma.StatusAccessViolation)
		active.deliver(passive)
	} else if n == 1 {
		active.post(rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 16)})
		if res := passive.received(); res.Status != rdma.StatusAccessViolation {
			r.Errorf("receive into memory without local write: %v", res.Status)
		}
	}
	if !zero(buf) {
		r.Error("memory without local write was written")
	}
}
