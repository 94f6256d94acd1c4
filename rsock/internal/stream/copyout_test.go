package stream

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"
)

// TestConcurrentWriteToKeepsFetchedData runs a second WriteTo while the first uses fetched
// data. The second takes the data that follows, and no data is fetched into the memory that
// the first uses.
func TestConcurrentWriteToKeepsFetchedData(t *testing.T) {
	a, b := pair(t, fabrics()[0], setup{active: Config{Threshold: 8 << 10}})
	first, second, third := pattern(40000), []byte("between"), pattern(50000)
	for _, p := range [][]byte{first, second, third} {
		if _, err := a.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	for arrived := 0; arrived < 3; time.Sleep(time.Millisecond) {
		b.rx.mu.Lock()
		arrived = b.rx.input.items.len()
		b.rx.mu.Unlock()
	}
	early := &stopWriter{at: 2, in: make(chan struct{}), out: make(chan struct{})}
	late := &stopWriter{}
	var wg sync.WaitGroup
	defer wg.Wait()
	copyTo := func(w io.Writer) {
		wg.Go(func() {
			if _, err := b.WriteTo(w); err != nil {
				t.Errorf("WriteTo: %v", err)
			}
		})
	}
	copyTo(early)
	<-early.in // with the fetched part of first
	copyTo(late)
	until(t, "the second WriteTo waits", func() bool { return late.len() > len(second) && callWaits("borrow") })
	b.rx.mu.Lock()
	if !b.rx.input.fetch.isIdle() || late.len() == len(second)+len(third) {
		t.Error("data is fetched into memory that a WriteTo uses")
	}
	b.rx.mu.Unlock()
	close(early.out)
	if err := a.CloseWrite(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := early.len() + late.len(); n != len(first)+len(second)+len(third) {
		t.Fatalf("%d bytes came", n)
	}
	if !bytes.Equal(early.got[:len(first)], first) || !bytes.HasPrefix(late.got, second) {
		t.Error("the first data differs from the data that was written first")
	}
}

// stopWriter keeps the written data. Its call number at blocks until out is closed, before
// it keeps the data. With 0 no call blocks.
type stopWriter struct {
	at      int
	in, out chan struct{}

	mu    sync.Mutex
	calls int
	got   []byte
}

func (w *stopWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.calls++
	stop := w.calls == w.at
	w.mu.Unlock()
	if stop {
		close(w.in)
		<-w.out
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, p...)
	return len(p), nil
}

// len returns the number of bytes.
func (w *stopWriter) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}
