package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// memSource is a source in memory.
type memSource struct {
	b       []byte
	claimed int64 // size that it claims to have
	failAt  int64 // offset whose chunk fails, or negative
}

var errInjected = errors.New("injected failure")

func (s *memSource) Size() int64 { return s.claimed }

func (s *memSource) ReadChunk(_ context.Context, p []byte, off int64) (int, error) {
	if s.failAt >= 0 && off <= s.failAt && s.failAt < off+int64(len(p)) {
		return 0, errInjected
	}
	return bytes.NewReader(s.b).ReadAt(p, off)
}

// memSink is a sink in memory that fails if an ordered write is out of order or
// two overlap.
type memSink struct {
	ordered bool
	mu      sync.Mutex
	b       []byte
	got     int64
	failAt  int64
}

func (s *memSink) Ordered() bool { return s.ordered }

func (s *memSink) WriteChunk(_ context.Context, p []byte, off int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failAt >= 0 && off <= s.failAt && s.failAt < off+int64(len(p)) {
		return errInjected
	}
	if s.ordered && off != s.got {
		return fmt.Errorf("chunk at %d, want %d", off, s.got)
	}
	if need := off + int64(len(p)); need > int64(len(s.b)) {
		s.b = append(s.b, make([]byte, need-int64(len(s.b)))...)
	}
	copy(s.b[off:], p)
	s.got += int64(len(p))
	return nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestTransferMovesEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := randomBytes(rapid.OneOf(rapid.Just(0), rapid.Just(chunkSize), rapid.IntRange(1, 5*chunkSize)).Draw(t, "size"))
		var src source = &memSource{b: content, claimed: int64(len(content)), failAt: -1}
		if rapid.Bool().Draw(t, "stream") {
			src = &streamSource{bytes.NewReader(content)}
		}
		dst := &memSink{ordered: rapid.Bool().Draw(t, "ordered"), failAt: -1}
		var reported int64
		var mu sync.Mutex
		n, err := transfer(context.Background(), src, dst, transferOptions{
			depth:    rapid.IntRange(0, 9).Draw(t, "depth"),
			progress: func(n int) { mu.Lock(); reported += int64(n); mu.Unlock() },
		})
		if err != nil || n != int64(len(content)) || reported != n {
			t.Fatalf("transfer = %d, %v (progress %d), want %d", n, err, reported, len(content))
		}
		if !bytes.Equal(dst.b, content) {
			t.Fatal("the copy differs")
		}
	})
}

func TestTransferReportsFailures(t *testing.T) {
	content := randomBytes(6*chunkSize + 1)
	size := int64(len(content))
	for _, c := range []struct {
		name string
		src  source
		dst  *memSink
		want error
	}{
		{"source fails", &memSource{content, size, 3 * chunkSize}, &memSink{failAt: -1}, errInjected},
		{"source fails, ordered", &memSource{content, size, 3 * chunkSize}, &memSink{ordered: true, failAt: -1}, errInjected},
		{"sink fails", &memSource{content, size, -1}, &memSink{failAt: 2 * chunkSize}, errInjected},
		{"sink fails, ordered", &memSource{content, size, -1}, &memSink{ordered: true, failAt: 2 * chunkSize}, errInjected},
		{"source shrank", &memSource{content[:2*chunkSize+5], size, -1}, &memSink{failAt: -1}, errShrank},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := transfer(context.Background(), c.src, c.dst, transferOptions{depth: 4})
			if !errors.Is(err, c.want) {
				t.Fatalf("error = %v, want %v", err, c.want)
			}
			if n >= size {
				t.Errorf("%d bytes arrived of %d, though it failed", n, size)
			}
		})
	}
}

// slowSink is a sink whose first chunk takes a second, and whose second one fails.
type slowSink struct{ ended error }

func (*slowSink) Ordered() bool { return false }

func (s *slowSink) WriteChunk(ctx context.Context, _ []byte, off int64) error {
	if off == chunkSize {
		time.Sleep(time.Millisecond) // until the first one is at it
		return errInjected
	}
	time.Sleep(time.Second)
	s.ended = ctx.Err()
	return nil
}

// TestTransferWaitsForChunksInFlight fails one chunk while another chunk is being written:
// the transfer waits for the other chunk and begins no further one.
func TestTransferWaitsForChunksInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := randomBytes(5 * chunkSize)
		sink := &slowSink{ended: errors.New("not waited for")}
		n, err := transfer(t.Context(), &memSource{content, int64(len(content)), -1}, sink, transferOptions{depth: 2})
		if !errors.Is(err, errInjected) || n != chunkSize || sink.ended != nil {
			t.Errorf("transfer = %d, %v; the chunk in flight: %v", n, err, sink.ended)
		}
	})
}

func TestTransferStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	src := &streamSource{bytes.NewReader(nil)}
	if _, err := transfer(ctx, src, &memSink{ordered: true, failAt: -1}, transferOptions{depth: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

// oneAtATime fails the test if two reads are in progress at once. Its second read blocks
// until the test is over.
type oneAtATime struct {
	t      *testing.T
	busy   atomic.Bool
	reads  atomic.Int32
	cancel func()
	over   chan struct{}
}

func (r *oneAtATime) Read(p []byte) (int, error) {
	if r.busy.Swap(true) {
		r.t.Error("two reads of a stream at once")
	}
	defer r.busy.Store(false)
	if r.reads.Add(1) == 2 {
		r.cancel()
		<-r.over
	}
	return len(p), nil
}

// A canceled copy whose stream is being read begins no second read of the stream.
func TestCanceledCopyReadsStreamOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &oneAtATime{t: t, cancel: cancel, over: make(chan struct{})}
	defer close(r.over)
	_, err := transfer(ctx, &streamSource{r}, &memSink{ordered: true, failAt: -1}, transferOptions{depth: 8})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if n := r.reads.Load(); n != 2 {
		t.Errorf("%d reads were begun", n)
	}
}

func TestCompareFindsOneWrongByte(t *testing.T) {
	a := randomBytes(3*chunkSize + 7)
	b := bytes.Clone(a)
	asSource := func(b []byte) source { return &memSource{b, int64(len(b)), -1} }
	if err := compare(context.Background(), asSource(a), asSource(b), transferOptions{depth: 3}); err != nil {
		t.Fatal(err)
	}
	b[2*chunkSize+1] ^= 1
	if err := compare(context.Background(), asSource(a), asSource(b), transferOptions{depth: 3}); !errors.Is(err, errDiffers) {
		t.Errorf("error = %v", err)
	}
	if err := compare(context.Background(), asSource(a), asSource(a[:9]), transferOptions{depth: 3}); !errors.Is(err, errDiffers) {
		t.Errorf("sizes differ: error = %v", err)
	}
}

// heldSink holds the first chunk until free is closed.
type heldSink struct {
	mu   sync.Mutex
	last int64 // the highest offset that was written
	free chan struct{}
}

func (s *heldSink) Ordered() bool { return false }

func (s *heldSink) WriteChunk(_ context.Context, _ []byte, off int64) error {
	if off == 0 {
		<-s.free
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, off)
	return nil
}

// No chunk is begun a window behind one that has not arrived.
func TestTransferKeepsItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &memSource{b: make([]byte, 40*chunkSize), claimed: 40 * chunkSize, failAt: -1}
		sink := &heldSink{free: make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			_, err := transfer(t.Context(), src, sink, transferOptions{depth: maxDepth, window: 4 * chunkSize})
			done <- err
		}()
		synctest.Wait()
		if sink.last != 3*chunkSize {
			t.Errorf("chunks up to %d were written behind a missing one", sink.last)
		}
		close(sink.free)
		if err := <-done; err != nil || sink.last != 39*chunkSize {
			t.Errorf("the last chunk is at %d: %v", sink.last, err)
		}
	})
}
