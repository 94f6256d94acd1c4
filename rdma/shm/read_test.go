//go:build linux

package shm

import (
	"bytes"
	"errors"
	"testing"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// After the first read, memory of Alloc is read without the ring, in all sizes, and no
// byte around the data changes. Source: [ND QueuePair.Read]
func TestDirectReadBypassesRing(t *testing.T) {
	active, passive := connected(t, nil, 1<<20)
	fill(passive.mem)
	at := passive.at(0)
	active.read(t, active.sge(0, 1), at)
	eventually(t, "the region is shared", func() bool { return active.inside().mappings.knows(uint32(at.Token)) })
	eventually(t, "the ring is empty", active.drained)
	before := active.inside().own.Tail.Load()
	for _, n := range []int{1, 3, 8, 9, 4096, 65537, 1<<20 - 8} {
		clear(active.mem)
		sgl := append(active.sge(7, n/2), active.sge(7+n/2, n-n/2)...)
		if res := active.read(t, sgl, passive.at(5)); res.Status != rdma.StatusSuccess {
			t.Fatal(res.Status)
		}
		if !bytes.Equal(active.mem[7:7+n], passive.mem[5:5+n]) {
			t.Fatalf("%d bytes differ", n)
		}
		if active.mem[6] != 0 || 7+n < len(active.mem) && active.mem[7+n] != 0 {
			t.Fatalf("%d bytes wrote beside their place", n)
		}
	}
	if after := active.inside().own.Tail.Load(); after != before {
		t.Errorf("%d bytes went through the ring", after-before)
	}
}

// A region with only the read right is not written through the mapping, and a region with
// only the write right is not read. Source: [ND MR flags]
func TestDirectAccessChecksRights(t *testing.T) {
	for _, c := range []struct {
		access rdma.Access
		first  rdma.Op
		then   rdma.Op
	}{
		{rdma.AccessRemoteRead, rdma.OpRead, rdma.OpWrite},
		{rdma.AccessRemoteWrite, rdma.OpWrite, rdma.OpRead},
	} {
		active, passive := connected(t, nil, 4096)
		region := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), passive.mem, c.access))
		at := region.RemoteAddr()
		active.post(t, rdma.Request{Op: c.first, SGL: active.sge(0, 8), Remote: at})
		if res := next(t, active.icq); res.Status != rdma.StatusSuccess {
			t.Fatal(res.Status)
		}
		eventually(t, "the region is shared", func() bool { return active.inside().mappings.knows(uint32(at.Token)) })
		eventually(t, "the ring is empty", active.drained)
		active.post(t, rdma.Request{Op: c.then, SGL: active.sge(0, 8), Remote: at})
		if err := ends(t, active.conn); !errors.Is(err, rdma.StatusAccessViolation) {
			t.Errorf("%v of a region for %v: %v", c.then, c.first, err)
		}
	}
}

// A connection ends if the peer requests more reads than the limit and does not take the
// answers. Source: [RFC 5042 §6.4.3.3]
func TestTooManyReadsEndTheConnection(t *testing.T) {
	leakcheck.Check(t)
	r, passive, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	e := ring.Entry{Kind: ring.ReadRequest, Total: 1 << 16, Token: uint32(passive.at(0).Token), Addr: passive.at(0).Addr}
	for range 2*someReads.Inbound + 4 {
		r.put(e, ring.HeaderSize)
	}
	if err := ends(t, passive.conn); !errors.Is(err, rdma.StatusRemoteError) || !errors.Is(err, errReads) {
		t.Errorf("too many reads: %v", err)
	}
	r.nc.Close()
	passive.a.Close()
}

// A read is refused if the limits allow no reads. Source: [ND Connector.GetReadLimits]
func TestReadsNeedAReadLimit(t *testing.T) {
	active, passive := newSide(t, nil, 4096), newSide(t, nil, 4096)
	l, addr := passive.listen(t)
	accepted := make(chan error, 1)
	go func() { accepted <- passive.serve(t.Context(), l) }()
	err := errors.Join(active.conn.Connect(t.Context(), active.qp, addr, rdma.ReadLimits{Inbound: 2}, nil), active.conn.CompleteConnect(t.Context()))
	if e := <-accepted; err != nil || e != nil {
		t.Fatal(err, e)
	}
	if got := passive.inside().limits; got != (rdma.ReadLimits{Outbound: 2}) {
		t.Errorf("the passive side has %+v", got)
	}
	if _, err := active.qp.Post([]rdma.Request{{Op: rdma.OpRead, SGL: active.sge(0, 8), Remote: passive.at(0)}}); !errors.Is(err, rdma.StatusInvalidDeviceRequest) {
		t.Errorf("a read beyond the limits: %v", err)
	}
	if res := passive.read(t, passive.sge(0, 8), active.at(0)); res.Status != rdma.StatusSuccess {
		t.Errorf("a read within the limits: %v", res.Status)
	}
}

// The sink of a read is closed before the answer arrives.
func TestClosedSinkFailsItsRead(t *testing.T) {
	r, passive, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	passive.post(t, rdma.Request{Op: rdma.OpRead, ID: 5, SGL: passive.sge(0, 8), Remote: rdma.RemoteAddr{Addr: 1, Token: 1}})
	passive.region.Close()
	r.put(ring.Entry{Kind: ring.ReadResponse, Length: 8, Total: 8}, 64)
	if res := next(t, passive.icq); res.Status != rdma.StatusAccessViolation || res.ID != 5 {
		t.Errorf("the read ends with %+v", res)
	}
}
