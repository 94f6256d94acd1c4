package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/rsock/internal/verbs"
)

// pattern returns n bytes that differ from one offset to the next.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(n)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// TestSizesAroundLimits sends data of sizes around every limit, in both directions.
func TestSizesAroundLimits(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for _, noRead := range []bool{false, true} {
			t.Run(fmt.Sprintf("noRead=%v", noRead), func(t *testing.T) {
				a, b := pair(t, f, setup{
					active: Config{Threshold: 8 << 10}, passive: Config{Threshold: 8 << 10, NoRead: noRead},
				})
				for _, size := range []int{1, 64, 4063, 4064, 4065, 8191, 8192, 8193, 8194, 16384, 65536, 131072, 131073, 1 << 20, 3<<20 + 7} {
					exchange(t, a, b, pattern(size))
					exchange(t, b, a, pattern(size))
				}
			})
		}
	})
}

// exchange writes data on one side and reads it on the other.
func exchange(t *testing.T, from, to *Stream, data []byte) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		n, err := from.Write(data)
		if err == nil && n != len(data) {
			err = fmt.Errorf("wrote %d of %d bytes", n, len(data))
		}
		done <- err
	}()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(to, got); err != nil {
		t.Fatalf("%d bytes: read: %v", len(data), err)
	}
	if err := <-done; err != nil {
		t.Fatalf("%d bytes: write: %v", len(data), err)
	}
	if !bytes.Equal(got, data) {
		t.Fatalf("%d bytes arrived changed", len(data))
	}
}

// TestCloseWriteEndsStream reads all written data, and then the end.
func TestCloseWriteEndsStream(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		data := pattern(300 << 10)
		go func() {
			_, _ = a.Write(data)
			_ = a.CloseWrite()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		if _, err := a.Write(data); !errors.Is(err, ErrWriteClosed) {
			t.Errorf("write after the end: %v", err)
		}
		exchange(t, b, a, data)
	})
}

// TestCloseDeliversWrittenData closes directly after a write whose data the peer has not
// read.
func TestCloseDeliversWrittenData(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		data := pattern(20 << 10)
		done := make(chan error, 1)
		go func() {
			_, err := a.Write(data)
			done <- errors.Join(err, a.Close())
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := b.Write(data); !errors.Is(err, ErrPeerClosed) {
			t.Errorf("write to a peer that has closed: %v", err)
		}
		if _, err := a.Read(data); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	})
}

// TestReadFetchesTwoOffersAtOnce reads the data of two offers with one Read: both RDMA Reads
// are in flight at the same time, if reads have a delay, and the data is in order.
//
// Source: [WSD §5.2]
func TestReadFetchesTwoOffersAtOnce(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		var b *Stream
		var before []int // reads in flight when one was posted
		u := setup{wrapPassive: func(p rdma.Provider) rdma.Provider {
			return fault.Wrap(p, &fault.Config{Fault: func(a fault.Attempt) fault.Action {
				if a.Request.Op == rdma.OpRead {
					before = append(before, b.rx.input.fetch.busy) // the poster has the lock
				}
				return fault.Pass()
			}})
		}}
		a, passive := pair(t, f, u)
		b = passive
		data := pattern(3*directRead*tailPart + 1000)
		wrote := make(chan error, 1)
		go func() {
			for i := 0; i < len(data); i += len(data) / 2 {
				if _, err := a.Write(data[i:min(i+len(data)/2, len(data))]); err != nil {
					wrote <- err
					return
				}
			}
			wrote <- a.CloseWrite()
		}()
		for { // until a Write has made all its offers
			b.rx.mu.Lock()
			n := b.rx.input.open
			b.rx.mu.Unlock()
			if n > 1 {
				break
			}
			runtime.Gosched()
		}
		got := make([]byte, len(data))
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the read data differs from the written data, %v", err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		want := min(b.c.depth, 2) - 1
		if len(before) < 2 || before[0] != 0 || before[1] != want {
			t.Errorf("reads in flight: %v, want %d at the second", before, want)
		}
	})
}

// TestFetchesFitSmallQueues allows few pending requests: a Read leaves room for control
// messages and RDMA Writes, and starts no more fetches than the rest of the queue takes.
func TestFetchesFitSmallQueues(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for depth := 3; depth < 10; depth++ {
			a, b := pair(t, f, setup{passiveVerbs: &verbs.Config{SendDepth: depth, MaxRdmaSize: directRead}})
			data := pattern(10 * directRead)
			wrote := make(chan error, 1)
			go func() {
				_, err := a.Write(data)
				wrote <- err
			}()
			got := make([]byte, len(data))
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d requests: the read data differs from the written data, %v", depth, err)
			}
			if err := <-wrote; err != nil {
				t.Errorf("%d requests: %v", depth, err)
			}
			closeBoth(a, b)
		}
	})
}
