package stream

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// TestReadFromAndWriteToMoveAllData moves data by ReadFrom and WriteTo.
func TestReadFromAndWriteToMoveAllData(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for name, cfg := range variants {
			t.Run(name, func(t *testing.T) {
				a, b := pair(t, f, setup{active: cfg[0], passive: cfg[1]})
				data := pattern(3<<20 + 11)
				go func() {
					n, err := a.ReadFrom(io.LimitReader(bytes.NewReader(data), 1<<40))
					if n != int64(len(data)) || err != nil {
						t.Errorf("ReadFrom: %d, %v", n, err)
					}
					_, _ = a.Write(data[:10])
					_ = a.CloseWrite()
				}()
				var got bytes.Buffer
				n, err := b.WriteTo(onlyWriter{&got})
				if n != int64(len(data)+10) || err != nil || !bytes.Equal(got.Bytes()[:len(data)], data) {
					t.Errorf("WriteTo: %d of %d, %v", n, len(data)+10, err)
				}
			})
		}
	})
}

// TestSilentReadFromHoldsNoStage has a ReadFrom wait for a source that returned much data
// and then none, as in a proxy: the ReadFrom holds no memory for large data while it waits.
func TestSilentReadFromHoldsNoStage(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := a.ReadFrom(r)
			done <- err
		}()
		data := pattern(100000)
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read: %v", err)
		}
		for end := time.Now().Add(patience); a.Stats().RDMAWritten == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) { // the peer may have read the data before the count changes
				t.Fatal("no data went by RDMA")
			}
		}
		held := func() bool {
			return a.stage.held() > 0
		}
		for end := time.Now().Add(patience); held(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("memory for large data is kept")
			}
		}
		w.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
