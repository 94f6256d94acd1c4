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

// pattern gives n bytes that differ from place to place.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(n)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// TestSizes sends data of sizes around every limit, in both directions.
func TestSizes(t *testing.T) {
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

// TestCloseWrite reads all that was written, and then the end.
func TestCloseWrite(t *testing.T) {
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

// TestCloseDelivers closes right after a write whose data the peer has not read.
func TestCloseDelivers(t *testing.T) {
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

// TestFetchesAtOnce reads what two offers bring with one Read: both RDMA Reads are under way
// at the same time, where they take a while, and what comes is in its place.
//
// Source: [WSD §5.2]
func TestFetchesAtOnce(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		var b *Stream
		var before []int // reads that were under way when one was posted
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
			t.Errorf("what was read is not what was written, %v", err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		want := min(b.c.depth, 2) - 1
		if len(before) < 2 || before[0] != 0 || before[1] != want {
			t.Errorf("reads under way: %v, want %d at the second", before, want)
		}
	})
}

// TestFewRequests: where few requests may be pending, a Read asks for no more at once than
// there is room for beside control messages and what this side writes.
func TestFewRequests(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for depth := 3; depth < 10; depth++ {
			a, b := pair(t, f, setup{passiveSPI: &verbs.Config{SendDepth: depth, MaxRdmaSize: directRead}})
			data := pattern(10 * directRead)
			wrote := make(chan error, 1)
			go func() {
				_, err := a.Write(data)
				wrote <- err
			}()
			got := make([]byte, len(data))
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d requests: what was read is not what was written, %v", depth, err)
			}
			if err := <-wrote; err != nil {
				t.Errorf("%d requests: %v", depth, err)
			}
			closeBoth(a, b)
		}
	})
}
