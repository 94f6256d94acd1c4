package iwarp

import (
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// TestGrip: what was taken stays held until it is let go, or others took its place, and
// nothing is held after that; a region that is closed is not taken anew.
//
// Source: [RFC 5042 §6.3.1]
func TestGrip(t *testing.T) {
	d := softrdma.NewDomain("grip")
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
		var g grip
		var held []int // the last two that were taken, at most
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(regions)-1).Draw(rt, "region")
			holds := slices.Contains(held, i)
			switch rapid.SampledFrom([]string{"take", "take", "take", "close", "let go"}).Draw(rt, "step") {
			case "take":
				if got, want := g.take(&softrdma.Lease{Region: regions[i]}), open[i] || holds; got != want {
					rt.Fatalf("region %d, open %t, held %v: taken %t", i, open[i], held, got)
				}
				if open[i] && !holds {
					held = append([]int{i}, held[:min(len(held), 1)]...)
				}
			case "close":
				if !holds { // else it waits
					open[i] = false
					if err := regions[i].Close(); err != nil {
						rt.Fatal(err)
					}
				}
			case "let go":
				g.letGo()
				held = nil
			}
		}
		g.letGo()
		for _, r := range regions {
			if err := r.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// TestGripHolds: who closes a region that is held waits until it is let go, and who holds
// it may go on.
func TestGripHolds(t *testing.T) {
	d := softrdma.NewDomain("grip")
	t.Cleanup(func() { d.Close() })
	m, err := d.RegisterMemory(t.Context(), make([]byte, 8), rdma.AccessLocalWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := d.RegionOf(m)
	l := softrdma.Lease{Region: r}
	var g, other grip
	if !g.take(&l) {
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
	if !g.take(&l) {
		t.Error("what is held was lost")
	}
	if other.take(&l) {
		t.Error("what is closed was taken")
	}
	select {
	case <-closed:
		t.Error("closed while it is held")
	default:
	}
	g.letGo()
	<-closed
}

// TestGripPatient: who may wait for a disk holds no memory meanwhile.
func TestGripPatient(t *testing.T) {
	client, _ := connect(t, nil, nil, shape{depth: 4, sge: 1, buf: 4096})
	src, err := client.a.RegisterFile(t.Context(), testFile(t, []byte("0123456789")))
	if err != nil {
		t.Fatal(err)
	}
	qp := client.qp.(*queuePair)
	tx := &qp.c.tx
	tx.files.fn = func(uintptr) { tx.files.n, tx.files.err = copy(tx.files.buf, "0123456789"), nil } // as if in memory
	tx.b = batches.Get().(*batch)                                                                    // nobody else writes
	defer func() {
		tx.grip.letGo()
		tx.drop()
		tx.patient = false
	}()
	for _, tx.patient = range []bool{false, true} {
		if !tx.grip.take(&softrdma.Lease{Region: qp.a.Domain.RegionOf(client.mr)}) {
			t.Fatal("not taken")
		}
		if data, err := tx.fileData(&softrdma.WorkRequest{File: src}, 10); err != nil || string(data) != "0123456789" {
			t.Fatal(data, err)
		}
		if held := tx.grip != (grip{}); held == tx.patient {
			t.Errorf("patient %t, holds memory %t", tx.patient, held)
		}
	}
}
