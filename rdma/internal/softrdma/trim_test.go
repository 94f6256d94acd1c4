package softrdma

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lwio/internal/test/skip"
	"lwio/rdma"
)

// TrimIdle on random receives, some of them partly filled, leaves the pages that other
// data shares unchanged.
func TestTrimIdleKeepsOtherData(t *testing.T) {
	if runtime.GOOS != "linux" {
		skip.Test(t, "discarded memory is not known to be zero")
	}
	page := os.Getpagesize()
	const pagesEach = 6
	rapid.Check(t, func(rt *rapid.T) {
		d := newDomain(t)
		cq, err := d.CreateCompletionQueue(100)
		if err != nil {
			t.Fatal(err)
		}
		var q ReceiveQueue
		q.Init(d, &rdma.QueuePairConfig{ReceiveDepth: 100, MaxReceiveSGE: 4}, Queues{Receive: d.CompletionQueueOf(cq)}, func() {})
		mem := [2][]byte{make([]byte, pagesEach*page), make([]byte, pagesEach*page)}
		free := [2][]bool{} // bytes of posted receives
		var regions [2]rdma.MemoryRegion
		for i := range mem {
			for k := range mem[i] {
				mem[i][k] = byte(1 + k%255)
			}
			free[i] = make([]bool, len(mem[i]))
			if regions[i], err = d.RegisterMemory(t.Context(), mem[i], rdma.AccessLocalWrite, nil); err != nil {
				t.Fatal(err)
			}
		}
		cuts := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 100, page - 1, page, page + 1, 2 * page, 9 * page / 4, 3 * page}), 1, 8).Draw(rt, "cuts")
		kept := rapid.IntRange(0, 2).Draw(rt, "ends")
		filling := rapid.Bool().Draw(rt, "filling")
		closed := rapid.Bool().Draw(rt, "closed")
		var sges [][]rdma.SGE
		for i := range mem {
			off := rapid.SampledFrom([]int{0, 5, page}).Draw(rt, "offset")
			for _, n := range cuts {
				n = min(n, len(mem[i])-off)
				sges = append(sges, []rdma.SGE{{Region: regions[i], Offset: off, Length: n / 2}, {Region: regions[i], Offset: off + n/2, Length: n - n/2}})
				off += n
			}
		}
		order := rapid.Permutation(indices(len(sges))).Draw(rt, "order")
		for at, i := range order {
			if _, err := q.Post([]rdma.ReceiveRequest{{SGL: sges[i]}}); err != nil {
				t.Fatal(err)
			}
			if at < kept || at == kept && filling {
				continue
			}
			for _, s := range sges[i] {
				which := slices.Index(regions[:], s.Region)
				for k := range s.Length {
					free[which][s.Offset+k] = true
				}
			}
		}
		q.Lock()
		for range min(kept, len(order)) {
			q.BeginLocked()
			q.FinishLocked(&rdma.Result{})
		}
		if filling {
			q.BeginLocked()
		}
		q.Unlock()
		if closed {
			if err := regions[1].Close(); err != nil {
				t.Fatal(err)
			}
			clear(free[1])
		}
		var want [2][]byte
		for i := range mem {
			want[i] = bytes.Clone(mem[i])
			for p := 0; p < pagesEach; p++ {
				if !slices.Contains(free[i][p*page:(p+1)*page], false) {
					clear(want[i][p*page : (p+1)*page])
				}
			}
		}
		q.TrimIdle()
		for i := range mem {
			if !bytes.Equal(mem[i], want[i]) {
				rt.Errorf("region %d: other pages are gone", i)
			}
		}
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
