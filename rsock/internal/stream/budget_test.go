package stream

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
)

// bulk is the size of the stage of one stream, in bytes.
const bulk = stagePieces * stageSize

// TestStreamWithoutBudgetUsesMessages has two connections share memory that is enough for
// one connection. The second connection moves its large data in control messages, in all
// calls, until the memory is free again.
//
// Source: [WSD §5.1], [WSD §5.4]
func TestStreamWithoutBudgetUsesMessages(t *testing.T) {
	f := fabrics()[0] // which offers copies
	budget := NewBudget(bulk + 1000)
	data := pattern(100000)
	one, _ := pair(t, f, setup{active: Config{Memory: budget}})
	two, peer := pair(t, f, setup{active: Config{Memory: budget}, passive: Config{Memory: NewBudget(0)}})
	if _, err := one.Write(data); err != nil {
		t.Fatal(err)
	}
	if left := budget.left.Load(); left != 1000 {
		t.Fatalf("%d bytes are left", left)
	}
	// The memory stays in use, as the data is not read.
	exchange(t, two, peer, data)
	exchange(t, peer, two, data)
	copied := make(chan error, 1)
	go func() {
		n, err := two.ReadFrom(io.LimitReader(bytes.NewReader(data), int64(len(data))))
		if n != int64(len(data)) {
			t.Errorf("ReadFrom: %d bytes", n)
		}
		copied <- err
	}()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("data of ReadFrom: %v", err)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
	for _, s := range []*Stream{two, peer} {
		if st := s.Stats(); st.RDMAWritten+st.RDMARead > 0 {
			t.Errorf("%+v: large data went by RDMA", st)
		}
	}

	one.Abort()
	if left := budget.left.Load(); left != bulk+1000 {
		t.Fatalf("%d bytes are left after the first connection", left)
	}
	exchange(t, two, peer, data)
	if two.Stats().RDMAWritten == 0 {
		t.Error("no data went by RDMA although there is memory again")
	}
	closeBoth(two, peer)
	if left := budget.left.Load(); left != bulk+1000 {
		t.Errorf("%d bytes are left at the end", left)
	}
}

// TestReaderWithoutBudgetUsesControlBuffers has no memory on the side that reads in small
// pieces, with and without RDMA Read.
//
// Source: [WSD §5.2], [WSD §5.3]
func TestReaderWithoutBudgetUsesControlBuffers(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for _, noRead := range []bool{false, true} {
			a, b := pair(t, f, setup{passive: Config{Memory: NewBudget(0), NoRead: noRead}})
			data := pattern(60000)
			wrote := make(chan error, 1)
			go func() {
				_, err := a.Write(data)
				wrote <- err
			}()
			got := make([]byte, len(data))
			for n := 0; n < len(got); {
				k, err := b.Read(got[n:min(n+1000, len(got))])
				if err != nil {
					t.Fatal(err)
				}
				n += k
			}
			if err := <-wrote; err != nil || !bytes.Equal(got, data) {
				t.Errorf("the read data differs from the written data: %v", err)
			}
			b.rx.mu.Lock()
			if b.rx.input.fetch.temp != nil {
				t.Error("memory was allocated beyond the budget")
			}
			b.rx.mu.Unlock()
		}
	})
}

// TestDrainIsCountedInBudget closes while large data is offered. A side with memory fetches
// the data and counts it. On a side without memory the program has to read the data.
//
// Source: [WSD §7]
func TestDrainIsCountedInBudget(t *testing.T) {
	f := fabrics()[0]
	data := pattern(100000)
	for _, limit := range []int64{0, 1 << 20} {
		budget := NewBudget(limit)
		a, b := pair(t, f, setup{active: Config{Linger: patience}, passive: Config{Memory: budget}})
		if _, err := a.Write(data); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- a.Close() }()
		if limit > 0 {
			if err := <-done; err != nil {
				t.Error(err)
			}
			if left := budget.left.Load(); left >= limit {
				t.Error("data that was fetched for the program is not counted")
			}
			done <- nil
		}
		if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, data) {
			t.Errorf("read %d of %d bytes, %v", len(got), len(data), err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.Abort()
		if left := budget.left.Load(); left != limit {
			t.Errorf("%d bytes are left of %d", left, limit)
		}
	}
}

// TestFailedAllocationReturnsBudget fails to allocate and to register the stage.
func TestFailedAllocationReturnsBudget(t *testing.T) {
	f := fabrics()[0]
	budget := NewBudget(10 * bulk)
	a, b := pair(t, f, setup{active: Config{Memory: budget}, wrap: func(p rdma.Provider) rdma.Provider { return &halfStage{Provider: p} }})
	if _, err := a.Write(pattern(100000)); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("write: %v", err)
	}
	closeBoth(a, b)
	if left := budget.left.Load(); left != 10*bulk {
		t.Errorf("%d bytes are left of %d", left, 10*bulk)
	}
}

// TestIdleStreamReturnsBudget leaves a connection idle after large data: another connection
// gets its memory.
func TestIdleStreamReturnsBudget(t *testing.T) {
	f := fabrics()[0]
	budget := NewBudget(bulk)
	one, far := pair(t, f, setup{active: Config{Memory: budget}})
	exchange(t, one, far, pattern(100000))
	for end := time.Now().Add(patience); budget.left.Load() < bulk; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("memory for large data is kept")
		}
	}
	two, peer := pair(t, f, setup{active: Config{Memory: budget}})
	exchange(t, two, peer, pattern(100000))
	if two.Stats().RDMAWritten == 0 {
		t.Error("no data went by RDMA although there is memory")
	}
}

// TestBudgetIsNeverExceeded takes and gives concurrently.
func TestBudgetIsNeverExceeded(t *testing.T) {
	b := NewBudget(10)
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken := 0
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if !b.take(3) {
					continue
				}
				mu.Lock()
				if taken += 3; taken > 10 {
					t.Errorf("%d of 10 are taken", taken)
				}
				taken -= 3
				mu.Unlock()
				b.give(3)
			}
		})
	}
	wg.Wait()
	if b.left.Load() != 10 {
		t.Errorf("%d are left of 10", b.left.Load())
	}
}
