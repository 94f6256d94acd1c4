package rdmatest

import (
	"errors"

	"lwio/rdma"
)

// messageByReference checks that a message by reference arrives like any other message.
// It does not matter whether the provider leaves the data with the sender, whether it is
// the first message of a region, and whether the receiver accepts references.
func messageByReference(r *rig) {
	for _, accept := range []bool{false, true} {
		active, passive := r.pair(shape{memory: 256 << 10, byReference: accept})
		mem, err := active.adapter.Alloc(r.ctx(), 128<<10)
		r.ok("allocate memory", err)
		r.closeLater("memory", mem)
		outside := r.region(active.adapter, mem.Bytes(), rdma.AccessRemoteWrite)
		fill(active.mem)
		for turn, n := range []int{1, 4096, 4097, 65536, 0, 128 << 10, 5000, 1, 0, 128 << 10} {
			fill(mem.Bytes())
			clear(passive.mem)
			passive.receive(uint64(turn), passive.sge(16, 200<<10))
			sgl := append(active.sge(3, 48), rdma.SGE{Region: outside, Offset: len(mem.Bytes()) - n, Length: n})
			active.post(rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagByReference, SGL: sgl})
			res := passive.received()
			if res.Status != rdma.StatusSuccess || res.Bytes != 48+n || res.RemoteData != nil && !accept {
				r.Fatalf("a message with %d bytes by reference: %+v", n, res)
			}
			r.fetch(passive, res, n)
			if !same(passive.mem[16:64], active.mem[3:51]) || !same(passive.mem[64:64+n], mem.Bytes()[len(mem.Bytes())-n:]) ||
				!zero(passive.mem[:16]) || !zero(passive.mem[64+n:]) {
				r.Fatalf("a message with %d bytes by reference arrives changed", n)
			}
			if res := active.sent(); res.Status != rdma.StatusSuccess {
				r.Fatalf("send: %+v", res)
			}
		}
	}
}

// fetch copies the remote data of a message, at most n bytes, behind the other bytes of
// the message in the end's memory.
func (r *rig) fetch(e *end, res rdma.Result, n int) {
	r.Helper()
	if res.RemoteData == nil {
		return
	}
	if res.RemoteData.Len() > n {
		r.Fatalf("%d bytes are by reference instead of %d", res.RemoteData.Len(), n)
	}
	failure := errors.New("a failure")
	if err := res.RemoteData.View(func(p []byte) error {
		copy(e.mem[16+res.Bytes-res.RemoteData.Len():], p)
		return failure
	}); !errors.Is(err, failure) {
		r.Fatalf("view of remote data: %v, want the error of the function", err)
	}
	res.RemoteData.Release()
	res.RemoteData.Release()
	if err := res.RemoteData.View(func([]byte) error { return nil }); err == nil {
		r.Error("released remote data can be viewed")
	}
}
