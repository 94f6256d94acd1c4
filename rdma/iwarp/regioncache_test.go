package iwarp

import (
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// An acquired region stays referenced until flush, or until other regions replace it. A
// closed region is not acquired again.
//
// Source: [RFC 5042 §6.3.3]
func TestRegionCacheHoldsItsLastTwoRegions(t *testing.T) {
	d := softrdma.NewDomain("cache")
	t.Cleanup(func() { d.Close() })
	rapid.Check(t, func(rt *rapid.T) {
		regions := make([]*softrdma.Region, 4)
		open := make([]bool, len(regions))
		for i := range regions {
			m, err := d.RegisterMemory(t.Context(), make([]byte, 8), rdma.AccessLocalWrite, nil)
			if err != nil {
				rt.Fatal(err)
			}
			regions[i], open[i] = d.RegionOf(m), true
		}
		var g regionCache
		var held []int // at most the last two acquired regions
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(regions)-1).Draw(rt, "region")
			holds := slices.Contains(held, i)
			switch rapid.SampledFrom([]string{"take", "take", "take", "close", "flush"}).Draw(rt, "step") {
			case "take":
				if got, want := g.acquire(&softrdma.Grant{Region: regions[i]}), open[i] || holds; got != want {
					rt.Fatalf("region %d, open %t, held %v: taken %t", i, open[i], held, got)
				}
				if open[i] && !holds {
					held = append([]int{i}, held[:min(len(held), 1)]...)
				}
			case "close":
				if !holds { // otherwise Close waits
					open[i] = false
					if err := regions[i].Close(); err != nil {
						rt.Fatal(err)
					}
				}
			case "flush":
				g.flush()
				held = nil
			}
		}
		g.flush()
		for _, r := range regions {
			if err := r.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// Close of a cached region waits for flush; the cache may use the region until then.
func TestCloseWaitsForRegionCacheFlush(t *testing.T) {
	d := softrdma.NewDomain("cache")
	t.Cleanup(func() { d.Close() })
	m, err := d.RegisterMemory(t.Context(), make([]byte, 8), rdma.AccessLocalWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := d.RegionOf(m)
	l := softrdma.Grant{Region: r}
	var g, other regionCache
	if !g.acquire(&l) {
		t.Fatal("not taken")
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.Close()
	}()
	for r.Open() {
		runtime.Gosched()
	}
	if !g.acquire(&l) {
		t.Error("a cached region is lost")
	}
	if other.acquire(&l) {
		t.Error("a closed region is acquired")
	}
	select {
	case <-closed:
		t.Error("closed while it is held")
	default:
	}
	g.flush()
	<-closed
}

// A goroutine that may wait for a disk holds no references to memory meanwhile.
func TestPatientFileReadHoldsNoRegions(t *testing.T) {
	client, _ := connect(t, nil, nil, shape{depth: 4, sge: 1, buf: 4096})
	src, err := client.a.RegisterFile(t.Context(), testFile(t, []byte("0123456789")))
	if err != nil {
		t.Fatal(err)
	}
	qp := client.qp.(*queuePair)
	tx := &qp.c.tx
	tx.framer.files.fn = func(uintptr) { tx.framer.files.n, tx.framer.files.err = copy(tx.framer.files.buf, "0123456789"), nil } // as if in memory
	tx.framer.b = batches.Get().(*batch)                                                                                         // no other goroutine writes
	defer func() {
		tx.framer.regions.flush()
		tx.drop()
		tx.framer.mayBlock = false
	}()
	for _, tx.framer.mayBlock = range []bool{false, true} {
		if !tx.framer.regions.acquire(&softrdma.Grant{Region: qp.a.Domain.RegionOf(client.mr)}) {
			t.Fatal("not taken")
		}
		if data, err := tx.framer.fileData(&softrdma.WorkRequest{File: src}, 10); err != nil || string(data) != "0123456789" {
			t.Fatal(data, err)
		}
		if held := tx.framer.regions != (regionCache{}); held == tx.framer.mayBlock {
			t.Errorf("patient %t, holds memory %t", tx.framer.mayBlock, held)
		}
	}
}
