package fileio

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/wire"
)

// More operations than credits are sent as credits come back; meanwhile those of
// others get theirs, also if no call waits for the batch.
//
// Source: [OP-64], [OP-66]
func TestBatchSharesCredits(t *testing.T) { onEach(t, testBatchSharesCredits) }

func testBatchSharesCredits(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(100_000)
	share.put("f", want)
	for _, mode := range []base.CompletionMode{base.Adaptive, base.Polling, base.Interrupt} {
		s := newRawServer(t, on, share)
		s.mode, s.grant = mode, 4
		c := s.connect(base.Config{Timeout: time.Hour}) // the watchdog does not help
		f := openOn(t, c, "f")
		b := c.NewBatch(40)
		got := make([][]byte, 40)
		for i := range got {
			got[i] = make([]byte, 100*(i+1))
			if err := b.Read(f, got[i], int64(i), uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Submit(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			p := make([]byte, 300)
			if _, err := f.ReadAt(p, 3); err != nil || !bytes.Equal(p, want[3:303]) {
				t.Fatal(err)
			}
		}
		for n := 0; n < len(got); {
			list, err := b.Wait(t.Context(), 7)
			if err != nil {
				t.Fatal(err)
			}
			n += len(list)
			for _, d := range list {
				if d.Err != nil || !bytes.Equal(got[d.Tag], want[d.Tag:][:len(got[d.Tag])]) {
					t.Errorf("%+v", d)
				}
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Wait returns when its context ends, operations end when their time is up, and Close
// takes back the operations in flight; memory is not touched after any of these.
//
// Source: [OP-94a], [OP-111], [OP-113]
func TestBatchOnSilentServer(t *testing.T) { onEach(t, testBatchOnSilentServer) }

func testBatchOnSilentServer(t *testing.T, on string) {
	for _, mode := range []base.CompletionMode{base.Polling, base.Interrupt} {
		share := newFakeShare()
		share.put("f", pattern(100_000))
		s := newRawServer(t, on, share)
		s.mode = mode
		var held []func()
		release := make(chan struct{})
		s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
			if !h.Opcode.IO() {
				return false
			}
			if held = append(held, func() { c.answer(h, body) }); len(held) == 6 {
				go func() {
					<-release
					for _, answer := range held {
						answer()
					}
				}()
			}
			return true
		}
		c := s.connect(base.Config{Timeout: time.Hour})
		f := openOn(t, c, "f")
		buf := allocate(t, c, 5000)
		b, closing := c.NewBatch(3), c.NewBatch(3)
		small, large := make([]byte, 100), make([]byte, 100)
		for _, batch := range []*Batch{b, closing} {
			err := errors.Join(batch.Read(f, small, 0, 1), batch.Read(f, buf.Bytes(), 0, 2), batch.Write(f, large, 0, 3), batch.Submit(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := closing.Close(); err != nil {
			t.Error(err)
		}
		if !buf.Busy() {
			t.Error("a buffer is not busy though the batch was closed")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if list, err := b.Wait(ctx, 1); len(list) != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", list, err)
		}
		cancel()
		passTimeout(c.Live())
		list, err := b.Wait(t.Context(), 3)
		if err != nil || len(list) != 3 {
			t.Fatalf("%v, %v", list, err)
		}
		for _, d := range list {
			if !errors.Is(d.Err, os.ErrDeadlineExceeded) || base.IsUncertain(d.Err) != (d.Tag == 3) || d.N != 0 {
				t.Errorf("%+v", d)
			}
		}
		close(release)
		waitFor(t, func() bool { return !buf.Busy() })
		if !bytes.Equal(small, make([]byte, 100)) {
			t.Error("memory changed after its operation was over")
		}
		b.Close()
	}
}

// When the connection breaks, reads go on over SMB, and writes that were sent are
// uncertain and not repeated.
//
// Source: [OP-94f], [OP-112]
func TestBatchDisconnect(t *testing.T) { onEach(t, testBatchDisconnect) }

func testBatchDisconnect(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(200_000)
	share.put("f", want)
	share.put("g", nil)
	s := newRawServer(t, on, share)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Offset == 77 {
			c.cut()
		}
		return h.Offset == 77
	}
	c := s.connect(base.Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	b := c.NewBatch(3)
	defer b.Close()
	p, q := make([]byte, 150_000), make([]byte, 10)
	err := errors.Join(b.Write(g, make([]byte, 5000), 77, 1), b.Read(f, p, 1, 2), b.Read(f, q, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.Wait(t.Context(), 3)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, d := range list {
		if d.Tag != 1 && d.Err != nil || d.Tag == 1 && (!errors.Is(d.Err, net.ErrClosed) || !base.IsUncertain(d.Err)) {
			t.Errorf("%+v", d)
		}
	}
	if !bytes.Equal(p, want[1:150_001]) || !bytes.Equal(q, want[2:12]) {
		t.Error("wrong bytes")
	}
	if s.sess.counted(&s.sess.smbWrites) != 0 {
		t.Error("the write was repeated")
	}
}

// A batch reports to the server how many operations have no credit yet, so that the server can
// grant more. It reports none when they are over.
//
// Source: [LWIO claim 22], [OP-97]
func TestBatchReportsWaitingOperations(t *testing.T) { onEach(t, testBatchReportsWaitingOperations) }

func testBatchReportsWaitingOperations(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	s.mode, s.grant = base.Interrupt, 4
	var most atomic.Int32
	s.handle = func(_ *rawConn, h wire.Header, _ []byte) bool {
		most.Store(max(most.Load(), int32(h.Credits)))
		return false
	}
	c := s.connect(base.Config{Timeout: time.Hour})
	f := openOn(t, c, "f")
	for _, wait := range []bool{true, false} {
		b := c.NewBatch(40)
		for i := range 40 {
			if err := b.Read(f, make([]byte, 100), int64(i), uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		err := b.Submit(t.Context())
		if got := c.Stats().InFlight; got != 40 {
			t.Errorf("%d of 40 are in flight", got)
		}
		for wait && b.Pending() > 0 && err == nil {
			_, err = b.Wait(t.Context(), 1)
		}
		if err := errors.Join(err, b.Close()); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return c.Stats().InFlight == 0 })
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := most.Load(); got < 40 {
		t.Errorf("the server has seen %d at most", got)
	}
}

// Sync after Submit waits until writes are answered, not until a goroutine fetches their
// completions.
//
// Source: [OP-115]
func TestSyncAfterSubmit(t *testing.T) { onEach(t, testSyncAfterSubmit) }

func testSyncAfterSubmit(t *testing.T, on string) {
	for _, mode := range []base.CompletionMode{base.Interrupt, base.Polling} {
		share := newFakeShare()
		share.put("g", nil)
		s := newRawServer(t, on, share)
		s.mode = mode
		c := s.connect(base.Config{})
		g, b := openOn(t, c, "g"), c.NewBatch(2)
		err := errors.Join(b.Write(g, make([]byte, 100), 0, 0), b.Write(g, make([]byte, 6000), 100, 1),
			b.Submit(t.Context()), g.Sync(t.Context()))
		if n := len(share.files["g"].content()); err != nil || n != 6100 {
			t.Errorf("%v: %d bytes, %v", mode, n, err)
		}
		if list, err := b.Wait(t.Context(), 2); len(list) != 2 || err != nil || list[0].Err != nil || list[1].Err != nil {
			t.Errorf("%v: %+v, %v", mode, list, err)
		}
		if err := errors.Join(b.Close(), g.Close()); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// While Sync and Truncate wait for submitted writes the connection has a poller.
//
// Source: [OP-115]
func TestSyncRequiresPoller(t *testing.T) { onEach(t, testSyncRequiresPoller) }

func testSyncRequiresPoller(t *testing.T, on string) {
	_, w, c := serveHeldWrites(t, on, 16)
	f, b := openOn(t, c, "f"), c.NewBatch(1)
	for name, order := range map[string]func(ctx context.Context) error{
		"Sync":     f.Sync,
		"Truncate": func(ctx context.Context) error { return f.Truncate(ctx, 1) },
	} {
		if err := errors.Join(b.Write(f, make([]byte, 100), 0, 0), b.Submit(t.Context())); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return w.has(0) })
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		waiting, over := &askedContext{Context: ctx, asked: make(chan struct{})}, make(chan error, 1)
		go func() { over <- order(waiting) }()
		<-waiting.asked // for the write
		if n := pollerWaits(c.Live()); n != 1 {
			t.Errorf("%s: %d waits require a poller", name, n)
		}
		w.answer(0, 100, 0)
		if err := <-over; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := pollerWaits(c.Live()); n != 0 {
			t.Errorf("%s: %d waits require a poller afterwards", name, n)
		}
		if list, err := b.Wait(t.Context(), 1); len(list) != 1 || err != nil || list[0].Err != nil {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// A batch with operations over SMB and over RDMA sees the loss of the RDMA connection while
// the answer over SMB does not come.
//
// Source: [OP-112]
func TestBatchOverBothSeesLoss(t *testing.T) { onEach(t, testBatchOverBothSeesLoss) }

func testBatchOverBothSeesLoss(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", []byte("hello"))
	share.put("g", []byte("world"))
	s := newRawServer(t, on, share)
	var armed atomic.Bool
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpRead && armed.CompareAndSwap(true, false) {
			time.AfterFunc(50*time.Millisecond, c.cut) // when the batch sleeps
			return true
		}
		return false
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	p, q := make([]byte, 5), make([]byte, 5)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	s.sess.noFile = true
	g := openOn(t, c, "g")
	if _, err := g.ReadAt(q, 0); err != nil || g.Transport().Name != base.TransportSMB {
		t.Fatalf("%v, %v", g.Transport(), err)
	}
	slow := share.files["g"]
	slow.mu.Lock()
	release := sync.OnceFunc(slow.mu.Unlock)
	defer release()
	armed.Store(true)
	b := c.NewBatch(2)
	defer b.Close()
	defer release()
	if err := errors.Join(b.Read(g, q, 0, 1), b.Read(f, p, 0, 2)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if list, err := b.Wait(ctx, 1); err != nil || len(list) != 1 || list[0].Tag != 2 || list[0].N != 5 {
		t.Fatalf("%v, %v; want the read of f", list, err)
	}
	release()
	if list, err := b.Wait(ctx, 1); err != nil || len(list) != 1 || list[0].Tag != 1 || list[0].N != 5 {
		t.Fatalf("%v, %v; want the read of g", list, err)
	}
}
