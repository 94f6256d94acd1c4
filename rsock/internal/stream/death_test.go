package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/rsock/internal/verbs"
)

// TestCutAtEveryRequest runs an exchange with all calls many times. Each time it cuts the
// connection before another request of one of the sides. The calls of both sides end, the
// read data is the beginning of the written data, and no memory stays allocated.
//
// Source: [WSD §7]
func TestCutAtEveryRequest(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for name, cfg := range variants {
			t.Run(name, func(t *testing.T) {
				size := 60000
				if name == "messages" {
					size = 6000 // enough messages, all of the same kind
				}
				for _, active := range []bool{true, false} {
					n := uint64(1)
					for cutAt(t, f, n, active, size, cfg) {
						n++
					}
					if n < 10 {
						t.Errorf("the exchange has only %d requests", n)
					}
				}
			})
		}
	})
}

// cutAt runs the exchange with a cut before request n of one side, and reports whether the
// exchange had so many requests.
func cutAt(t *testing.T, f fabric, n uint64, active bool, size int, cfg [2]Config) bool {
	var cut atomic.Bool
	u := setup{active: cfg[0], passive: cfg[1]}
	u.active.Linger, u.passive.Linger = 5*time.Second, 5*time.Second
	budget := NewBudget(10 * bulk)
	u.active.Memory, u.passive.Memory = budget, budget
	wrap := func(p rdma.Provider) rdma.Provider {
		return fault.Wrap(p, &fault.Config{Fault: func(a fault.Attempt) fault.Action {
			if a.N != n {
				return fault.Pass()
			}
			cut.Store(true)
			return fault.Cut()
		}})
	}
	if active {
		u.wrap = wrap
	} else {
		u.wrapPassive = wrap
	}
	data := pattern(size)
	var a, b *Stream
	sockets(t, f, u, func(sock *verbs.Socket, active bool) (err error) {
		if active {
			a, err = New(t.Context(), sock, u.active)
		} else {
			b, err = New(t.Context(), sock, u.passive)
		}
		return err
	})
	watch(t, a, b)
	var wg sync.WaitGroup
	wg.Go(func() { exerciseCut(t, n, data, a, true) })
	wg.Go(func() { exerciseCut(t, n, data, b, false) })
	wg.Wait()
	if left := budget.left.Load(); left != 10*bulk {
		t.Errorf("cut at %d: %d bytes of memory for large data are left of %d", n, left, 10*bulk)
	}
	return cut.Load() && !hung.Load()
}

// exerciseCut runs the calls of one side until an error.
func exerciseCut(t *testing.T, n uint64, data []byte, s *Stream, active bool) {
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if s.Start(ctx, active) != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, part := range [][]byte{data[:100], data[100 : len(data)/2], data[len(data)/2:]} {
			if _, err := s.Write(part); err != nil {
				return
			}
			_, _ = s.WriteUrgent([]byte("!"))
		}
		_ = s.CloseWrite()
	})
	got, err := io.ReadAll(onlyReader{s})
	wg.Wait()
	if !bytes.HasPrefix(data, got) {
		t.Errorf("cut at %d: the read data differs from the written data", n)
	}
	if err == nil && len(got) != len(data) {
		t.Errorf("cut at %d: the stream of %d bytes ends after %d as if that were all", n, len(data), len(got))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("cut at %d: %v is no net.ErrClosed", n, err)
	}
}

// TestAbortEndsCallsOfPeer aborts while the peer reads and writes.
//
// Source: [WSD §7]
func TestAbortEndsCallsOfPeer(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		ended := make(chan error, 2)
		go func() {
			_, err := b.Read(make([]byte, 10))
			ended <- err
		}()
		go func() {
			var err error
			for err == nil {
				_, err = b.Write(pattern(100000))
			}
			ended <- err
		}()
		if _, err := io.ReadFull(a, make([]byte, 50000)); err != nil {
			t.Fatal(err)
		}
		a.Abort()
		for range 2 {
			if err := <-ended; !errors.Is(err, ErrReset) || !errors.Is(err, syscall.ECONNRESET) || !errors.Is(err, net.ErrClosed) {
				t.Errorf("the peer's call ended with %v", err)
			}
		}
	})
}

// TestCloseEndsTransfersInBothDirections closes one side while large data is in flight in
// both directions.
//
// Source: [WSD §7]
func TestCloseEndsTransfersInBothDirections(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		for name, cfg := range variants {
			t.Run(name, func(t *testing.T) {
				for i := range 10 {
					u := setup{active: cfg[0], passive: cfg[1]}
					u.active.Linger, u.passive.Linger = patience, patience // no close may need that
					a, b := pair(t, f, u)
					var wg sync.WaitGroup
					for _, s := range []*Stream{a, b} {
						wg.Go(func() {
							for {
								if _, err := s.Write(pattern(200000)); err != nil {
									return
								}
							}
						})
						wg.Go(func() { _, _ = io.Copy(io.Discard, onlyReader{s}) })
					}
					time.Sleep(time.Duration(i) * 300 * time.Microsecond)
					if err := a.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
					_ = b.Close()
					wg.Wait()
					if err := a.c.failure(); !errors.Is(err, errClosed) || errors.Is(err, errLinger) {
						t.Errorf("the stream ended with %v", err)
					}
				}
			})
		}
	})
}

// TestCloseEndsAfterLinger closes while the process of the peer does not run.
func TestCloseEndsAfterLinger(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{Linger: 30 * time.Millisecond}, true)
		wrote := make(chan error, 1)
		go func() {
			_, err := s.Write(pattern(4 << 20))
			wrote <- err
		}()
		r.receive(TypeOffer)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-wrote; !errors.Is(err, net.ErrClosed) {
			t.Errorf("write: %v", err)
		}
	})
}

// TestCallsAfterCloseFail calls every method after Close.
func TestCallsAfterCloseFail(t *testing.T) {
	a, _ := pair(t, fabrics()[0], setup{})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"read":           func() error { _, err := a.Read(make([]byte, 1)); return err },
		"write":          func() error { _, err := a.Write(make([]byte, 1)); return err },
		"large write":    func() error { _, err := a.Write(make([]byte, 1<<20)); return err },
		"read urgent":    func() error { _, err := a.ReadUrgent(make([]byte, 1)); return err },
		"write urgent":   func() error { _, err := a.WriteUrgent(make([]byte, 1)); return err },
		"read from":      func() error { _, err := a.ReadFrom(bytes.NewReader(make([]byte, 1))); return err },
		"write to":       func() error { _, err := a.WriteTo(io.Discard); return err },
		"close":          a.Close,
		"close read":     a.CloseRead,
		"close write":    a.CloseWrite,
		"read deadline":  func() error { return a.SetReadDeadline(time.Now()) },
		"write deadline": func() error { return a.SetWriteDeadline(time.Now()) },
	} {
		if err := call(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCloseDuringReadFrom closes while the source of a ReadFrom and the destination of a
// WriteTo block. Both calls use memory of the stream.
func TestCloseDuringReadFrom(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		r, w := io.Pipe()
		done := make(chan error, 2)
		go func() {
			_, err := a.ReadFrom(r)
			r.Close() // so that no write waits for it
			done <- err
		}()
		for _, n := range []int{100000, a.c.cfg.Threshold} { // sizes that make ReadFrom read more
			if _, err := w.Write(pattern(n)); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(patience); !a.inUse(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("ReadFrom has no memory of the stream")
			}
		}
		stuck := stuckWriter{in: make(chan struct{}), out: make(chan struct{})}
		go func() {
			_, err := b.WriteTo(stuck)
			done <- err
		}()
		<-stuck.in
		closeBoth(a, b)
		close(stuck.out)
		if _, err := w.Write(pattern(100000)); err == nil {
			t.Log("the pipe took the data before its reader saw the end")
		}
		w.Close()
		for range 2 {
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		}
	})
}

// inUse reports whether a call uses memory of the stream without a lock.
func (s *Stream) inUse() bool {
	s.rx.mu.Lock()
	defer s.rx.mu.Unlock()
	return s.rx.users > 0
}

type stuckWriter struct{ in, out chan struct{} }

func (w stuckWriter) Write(p []byte) (int, error) {
	close(w.in)
	<-w.out
	return len(p), nil
}

// TestCloseWriteBehindClose has a CloseWrite wait while Close sends its shutdown: CloseWrite
// sends no message after that, which would violate the protocol.
//
// Source: [WSD §7]
func TestCloseWriteBehindClose(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{Linger: patience}, true)
		s.writer.calls.Lock() // like a Write that came before
		closed := make(chan error, 1)
		go func() { closed <- s.CloseWrite() }()
		for !s.finished.Load() {
			time.Sleep(time.Millisecond)
		}
		if !s.BeginClose() {
			t.Fatal("the stream is closed")
		}
		parted := make(chan struct{})
		go func() {
			defer close(parted)
			s.closer.disconnect()
		}()
		if m := r.receive(TypeShutdown); m.Flags != FlagClosing {
			t.Errorf("the first shutdown has flags %v", m.Flags)
		}
		before := s.Stats().MessagesSent
		s.writer.calls.Unlock()
		if err := <-closed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("CloseWrite: %v", err)
		}
		if n := s.Stats().MessagesSent - before; n != 0 {
			t.Errorf("%d messages were sent after the last", n)
		}
		r.sendMessage(Message{Type: TypeShutdown, Flags: FlagTaken, Credits: 1})
		<-parted
		if err := s.EndClose(); err != nil {
			t.Error(err)
		}
	})
}
