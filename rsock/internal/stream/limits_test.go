package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// TestThresholdWithoutProviderValue uses a threshold of 1 byte if the provider has no
// threshold.
func TestThresholdWithoutProviderValue(t *testing.T) {
	if got := (Config{}).withDefaults(verbs.Options{}).Threshold; got != 1 {
		t.Errorf("a threshold of %d bytes", got)
	}
}

// TestThresholdSelectsRDMA sends data of the size of the threshold by messages, and one byte
// more by RDMA.
//
// Source: [WSD §2.4 SO_RDMA_THRESHOLD_SIZE], [WSD §5.4]
func TestThresholdSelectsRDMA(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		const threshold = 20000
		a, b := pair(t, f, setup{active: Config{Threshold: threshold}, passive: Config{Threshold: threshold}})
		exchange(t, a, b, pattern(threshold))
		if n := a.Stats().RDMAWritten; n != 0 {
			t.Errorf("%d bytes of the threshold went by RDMA", n)
		}
		exchange(t, a, b, pattern(threshold+1))
		st := a.Stats()
		if head := uint64(maxHead); st.RDMAWritten != threshold+1-head {
			t.Errorf("of a byte more %d bytes went by RDMA, want %d", st.RDMAWritten, threshold+1-head)
		}
		if got := b.Stats(); got.RDMARead != st.RDMAWritten || got.BytesRead != st.BytesWritten || st.BytesWritten != 2*threshold+1 {
			t.Errorf("reader %+v, writer %+v", got, st)
		}
	})
}

// variants are the configurations of two sides for each way of large data.
var variants = map[string][2]Config{
	"messages": {{Threshold: 1 << 30, ReceiveBuffers: minBuffers, BufferSize: minBufferSize}, {Threshold: 1 << 30, ReceiveBuffers: minBuffers, BufferSize: minBufferSize}},
	"reads":    {{}, {}},
	"writes":   {{NoRead: true}, {NoRead: true}},
	"mixed":    {{NoRead: true}, {ReceiveBuffers: minBuffers}},
}

// TestFullWindowsDoNotDeadlock writes on both sides without reads until all credits are
// used; then one side reads, and the Write of its peer must end, although the Write of the
// reading side still waits.
//
// Source: [WSD §4 credit rules]
func TestFullWindowsDoNotDeadlock(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for name, cfg := range variants {
			t.Run(name, func(t *testing.T) {
				a, b := pair(t, f, setup{active: cfg[0], passive: cfg[1]})
				const each, times = 10000, 50
				data := pattern(each * times)
				write := func(s *Stream) chan error {
					done := make(chan error, 1)
					go func() {
						for i := range times {
							if _, err := s.Write(data[i*each : (i+1)*each]); err != nil {
								done <- err
								return
							}
						}
						done <- nil
					}()
					return done
				}
				fromA, fromB := write(a), write(b)
				for stuck := false; !stuck; {
					before := [2]Stats{a.Stats(), b.Stats()}
					time.Sleep(20 * time.Millisecond)
					stuck = before == [2]Stats{a.Stats(), b.Stats()}
				}
				got := make([]byte, len(data))
				if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("b read: %v", err)
				}
				if err := <-fromA; err != nil {
					t.Fatalf("a wrote: %v", err)
				}
				if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("a read: %v", err)
				}
				if err := <-fromB; err != nil {
					t.Fatalf("b wrote: %v", err)
				}
			})
		}
	})
}

// scarce is a provider that allocates and registers no memory while short is set.
type scarce struct {
	rdma.Provider
	short *atomic.Bool
}

func (p scarce) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return scarceAdapter{a, p.short}, err
}

type scarceAdapter struct {
	rdma.Adapter
	short *atomic.Bool
}

func (a scarceAdapter) Alloc(ctx context.Context, size int) (rdma.Memory, error) {
	if a.short.Load() {
		return nil, rdma.StatusInsufficientResources
	}
	return a.Adapter.Alloc(ctx, size)
}

func (a scarceAdapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	if a.short.Load() {
		return nil, rdma.StatusInsufficientResources
	}
	return a.Adapter.RegisterMemory(ctx, buf, access)
}

// TestNoBuffersFailsLargeWrites has no memory for some time: large writes fail, small writes
// succeed, and a side that reads still reads. The stream goes on afterwards.
//
// Source: [WSD §5.4]
func TestNoBuffersFailsLargeWrites(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		var short atomic.Bool
		a, b := pair(t, f, setup{wrap: func(p rdma.Provider) rdma.Provider { return scarce{p, &short} }})
		short.Store(true)
		for range 2 {
			n, err := a.Write(pattern(100000))
			if n != 0 || !errors.Is(err, ErrNoBuffers) || !errors.Is(err, syscall.ENOBUFS) {
				t.Fatalf("a large write: %d, %v", n, err)
			}
			exchange(t, a, b, pattern(1000))
		}
		exchange(t, b, a, pattern(100000))
		short.Store(false)
		exchange(t, a, b, pattern(100000))
		exchange(t, b, a, pattern(100000))
	})
}

// TestNoBuffersForPeerWrites has no memory on a side that cannot read: the write of the peer
// fails.
//
// Source: [WSD §5.4]
func TestNoBuffersForPeerWrites(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		var short atomic.Bool
		a, b := pair(t, f, setup{
			active: Config{NoRead: true},
			wrap:   func(p rdma.Provider) rdma.Provider { return scarce{p, &short} },
		})
		short.Store(true)
		done := make(chan int, 1)
		go func() {
			n, err := b.Write(pattern(100000))
			if !errors.Is(err, ErrNoBuffers) {
				t.Errorf("write: %d, %v", n, err)
			}
			short.Store(false)
			if _, err := b.Write(pattern(200000)); err != nil {
				t.Errorf("write afterwards: %v", err)
			}
			done <- n
		}()
		got := make([]byte, 100000)
		first, err := a.Read(got)
		if err != nil {
			t.Fatal(err)
		}
		rest := make([]byte, 200000)
		if _, err := io.ReadFull(a, rest); err != nil {
			t.Fatal(err)
		}
		if n := <-done; n != first || !bytes.Equal(got[:n], pattern(100000)[:n]) || !bytes.Equal(rest, pattern(200000)) {
			t.Errorf("%d bytes were written and %d read before the failure", n, first)
		}
	})
}

// TestWriteTimeoutCountsBytes ends a large write in the middle: the write returns how many
// bytes it sent, and the next write continues there.
//
// Source: [WSD §7]
func TestWriteTimeoutCountsBytes(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for name, cfg := range variants {
			t.Run(name, func(t *testing.T) {
				a, b := pair(t, f, setup{active: cfg[0], passive: cfg[1]})
				data := pattern(8 << 20)
				if err := a.SetWriteDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				n, err := a.Write(data)
				if !errors.Is(err, os.ErrDeadlineExceeded) || n >= len(data) {
					t.Fatalf("write: %d, %v", n, err)
				}
				if err := a.SetWriteDeadline(time.Time{}); err != nil {
					t.Fatal(err)
				}
				wrote := make(chan error, 1)
				go func() {
					_, err := a.Write(data[n:])
					wrote <- err
				}()
				got := make([]byte, len(data))
				if k, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("read %d bytes, of which %d were written before the deadline: %v", k, n, err)
				}
				if err := <-wrote; err != nil {
					t.Errorf("write after the deadline: %v", err)
				}
			})
		}
	})
}

type onlyWriter struct{ io.Writer }

// TestIdleStreamFreesMemory leaves a connection idle after large data: its memory is freed.
func TestIdleStreamFreesMemory(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		data := pattern(100000)
		go func() {
			for _, piece := range [][]byte{data[:30000], data[30000:]} {
				if _, err := a.Write(piece); err != nil {
					t.Error(err)
				}
			}
		}()
		held := func() bool {
			b.rx.mu.Lock()
			defer b.rx.mu.Unlock()
			return a.stage.held() > 0 || b.rx.input.fetch.held() > 0
		}
		used := false
		for n, buf := 0, make([]byte, 1000); n < len(data); {
			k, err := b.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			n += k
			used = used || held()
		}
		if !used {
			t.Fatal("no memory was used")
		}
		for end := time.Now().Add(patience); held(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("memory for large data is kept")
			}
		}
		exchange(t, a, b, data)
	})
}

// TestReadGoesOnAfterWriteTo has a Read wait for large data while a WriteTo uses the part
// before it: the Read goes on when the WriteTo is done, without a message of the peer.
func TestReadGoesOnAfterWriteTo(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		data := pattern(stageSize / 2)
		written := make(chan error, 1)
		go func() {
			_, err := a.Write(data)
			written <- err
		}()
		stuck := stuckWriter{in: make(chan struct{}), out: make(chan struct{})}
		copied := make(chan error, 1)
		go func() {
			_, err := b.WriteTo(lastWriter{stuck})
			copied <- err
		}()
		<-stuck.in // with the data before the offer's memory
		done := make(chan error, 1)
		go func() {
			_, err := b.Read(make([]byte, 1000))
			done <- err
		}()
		until(t, "the Read waits", func() bool { return callWaits("read") })
		close(stuck.out)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the Read is not woken")
		}
		closeBoth(a, b)
		<-copied
		<-written
	})
}

// lastWriter accepts one part.
type lastWriter struct{ stuckWriter }

func (w lastWriter) Write(p []byte) (int, error) {
	n, _ := w.stuckWriter.Write(p)
	return n, io.ErrClosedPipe
}

// callWaits reports whether a goroutine waits in progress.wait for a method of the reader, such
// as "read".
func callWaits(method string) bool {
	for stack := range strings.SplitSeq(goroutines(), "\n\n") {
		if strings.Contains(stack, "(*progress).wait+") && strings.Contains(stack, "(*reader)."+method+"+") {
			return true
		}
	}
	return false
}

// TestDataOfClosedPeerIsReadInParts closes while it offers more data than the peer's
// provider reads at once: the peer's program reads all data.
func TestDataOfClosedPeerIsReadInParts(t *testing.T) {
	a, b := pair(t, fabrics()[0], setup{passiveVerbs: &verbs.Config{MaxRdmaSize: 64 << 10}})
	data := pattern(300 << 10)
	if _, err := a.Write(data); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Close() }()
	for !b.c.peerClosed.Load() {
		time.Sleep(time.Millisecond)
	}
	if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(data), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
