package stream

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"lwio/internal/host"
	"lwio/rdma"
)

// trimNow frees the pages as the trimmer does for an idle stream. It returns false if it
// freed none.
func (s *Stream) trimNow() bool {
	s.rx.mu.Lock()
	defer s.rx.mu.Unlock()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.trimmer.discardPagesLocked()
}

// trimPair is pair without the timer of the trimmers, which the test runs by tick.
func trimPair(t *testing.T, f fabric, u setup) (a, b *Stream) {
	a, b = pair(t, f, u)
	for _, s := range []*Stream{a, b} {
		s.rx.mu.Lock()
		s.stage.mu.Lock()
		s.tx.mu.Lock()
		s.c.trimTimer.Stop()
		s.c.trimTimer = time.AfterFunc(time.Hour, func() {})
		s.tx.mu.Unlock()
		s.stage.mu.Unlock()
		s.rx.mu.Unlock()
	}
	return a, b
}

// tick runs the trimmers n times.
func tick(n int, streams ...*Stream) {
	for range n {
		for _, s := range streams {
			s.trimmer.run()
		}
	}
}

// trimTicks is the number of runs without messages after which pages are given back.
const trimTicks = int(bufferIdle / trimInterval)

// settle waits until no message is in flight or queued.
func settle(t *testing.T, a, b *Stream) {
	t.Helper()
	for end := time.Now().Add(patience); !settled(a, b); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("messages do not end")
		}
	}
}

func settled(a, b *Stream) bool {
	for _, s := range []*Stream{a, b} {
		s.rx.mu.Lock()
		defer s.rx.mu.Unlock()
		s.tx.mu.Lock()
		defer s.tx.mu.Unlock()
	}
	for _, c := range [][2]*Stream{{a, b}, {b, a}} {
		if o := &c[0].tx; len(o.free) < len(o.slots) || len(o.queue) > 0 || c[0].Stats().MessagesSent != c[1].Stats().MessagesReceived {
			return false
		}
	}
	return true
}

// noted reports whether there are pages to give back.
func (s *Stream) noted() bool {
	s.rx.mu.Lock()
	defer s.rx.mu.Unlock()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.rx.usage.noted || s.tx.usage.noted
}

// dirty reports whether the whole pages of the send buffers, and of the receive buffers, have
// data.
func (s *Stream) dirty() (out, in bool) {
	s.rx.mu.Lock()
	defer s.rx.mu.Unlock()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	some := func(b []byte) bool {
		return bytes.ContainsFunc(host.WholePages(b), func(r rune) bool { return r != 0 })
	}
	return some(s.tx.area), some(s.rx.area[:len(s.rx.area)-s.c.cfg.BufferSize])
}

// flood sends enough messages to use every buffer.
func flood(t *testing.T, from, to *Stream) {
	t.Helper()
	for range 2 * max(DefaultReceiveBuffers, sendBuffers) {
		exchange(t, from, to, pattern(16<<10))
	}
}

// TestIdleStreamGivesPagesBack leaves a connection idle after much data: both sides free the
// pages of their buffers after bufferIdle, and the connection goes on.
func TestIdleStreamGivesPagesBack(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := trimPair(t, f, setup{})
		full := func(when string) {
			t.Helper()
			for _, s := range []*Stream{a, b} {
				if out, in := s.dirty(); !out || !in || !s.noted() {
					t.Errorf("%s: sent from %v, received %v, noted %v", when, out, in, s.noted())
				}
			}
		}
		for range 2 {
			flood(t, a, b)
			flood(t, b, a)
			settle(t, a, b)
			tick(trimTicks, a, b)
			full("before the idle time is over")
			exchange(t, a, b, pattern(1))
			settle(t, a, b)
			tick(trimTicks, a, b)
			full("after a byte has begun the idle time anew")
			tick(1, a, b)
			for _, s := range []*Stream{a, b} {
				if out, in := s.dirty(); out || in || s.noted() {
					t.Errorf("after a trim: sent from %v, received %v, noted %v", out, in, s.noted())
				}
			}
		}
		exchange(t, a, b, pattern(100_000))
		exchange(t, b, a, pattern(100_000))
	})
}

// TestSmallMessagesDoNotStartTrimmer sends one byte after a trim, which is not worth another
// trim, and then enough bytes.
func TestSmallMessagesDoNotStartTrimmer(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := trimPair(t, f, setup{})
		exchange(t, a, b, pattern(trimWorth))
		exchange(t, b, a, pattern(trimWorth))
		settle(t, a, b)
		tick(1+trimTicks, a, b)
		exchange(t, a, b, pattern(1))
		settle(t, a, b)
		if a.noted() || b.noted() {
			t.Error("a message of a byte is worth it")
		}
		exchange(t, a, b, pattern(trimWorth))
		if !a.noted() || !b.noted() {
			t.Errorf("%d bytes are not worth it", trimWorth)
		}
	})
}

// TestTrimKeepsUnreadData trims with messages that arrived and are not read or not polled yet.
func TestTrimKeepsUnreadData(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		for n := 1; n <= 6; n++ { // messages in flight at a time
			p := pattern(n * 10_000)
			for off := 0; off < len(p); off += 10_000 {
				if _, err := a.Write(p[off : off+10_000]); err != nil {
					t.Fatal(err)
				}
				b.trimNow()
				a.trimNow()
			}
			got := make([]byte, len(p))
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, p) {
				t.Fatalf("%d messages: %v, or other bytes", n, err)
			}
		}
	})
}

// TestTrimKeepsDraft trims while a ReadFrom fills a buffer: that buffer stays.
func TestTrimKeepsDraft(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		flood(t, a, b)
		settle(t, a, b)
		d, ok := a.tx.draft(10_000)
		if !ok {
			t.Fatal("no buffer is free")
		}
		p := pattern(10_000)
		copy(d.data, p)
		if !a.trimNow() {
			t.Fatal("no page is given back while a ReadFrom has a buffer")
		}
		if out, _ := a.dirty(); !out {
			t.Fatal("the draft is gone")
		}
		if !d.trySend(len(p)) {
			t.Fatal("no credit")
		}
		got := make([]byte, len(p))
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, p) {
			t.Errorf("%v, or other bytes", err)
		}
	})
}

// TestTrimDuringTraffic trims repeatedly while both sides send messages of all sizes: no byte
// is lost.
func TestTrimDuringTraffic(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		stop := make(chan struct{})
		var resting, moving sync.WaitGroup
		trims := [2]int{}
		for i, s := range []*Stream{a, b} {
			resting.Go(func() {
				over, end := false, time.Time{}
				for !over || trims[i] == 0 && time.Now().Before(end) {
					if s.trimNow() {
						trims[i]++
					}
					runtime.Gosched() // otherwise the other goroutines wait for the end of a time slice
					select {
					case <-stop: // the other goroutines are done
						if !over {
							over, end = true, time.Now().Add(patience)
						}
					default:
					}
				}
			})
		}
		const rounds = 60
		for i, s := range []*Stream{a, b} {
			peer := []*Stream{b, a}[i]
			moving.Go(func() {
				for k := range rounds {
					if _, err := s.Write(pattern(1 + k*1031%(20<<10))); err != nil {
						t.Error(err)
						return
					}
				}
			})
			moving.Go(func() {
				for k := range rounds {
					want := pattern(1 + k*1031%(20<<10))
					got := make([]byte, len(want))
					if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, want) {
						t.Errorf("message %d: %v, or other bytes", k, err)
						peer.c.fail(errors.New("given up"))
						return
					}
				}
			})
		}
		moving.Wait()
		close(stop)
		resting.Wait()
		if trims[0] == 0 || trims[1] == 0 {
			t.Errorf("%v trims", trims)
		}
	})
}

// TestPinnedMemoryIsNotTrimmed uses a provider without CapPageable.
func TestPinnedMemoryIsNotTrimmed(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		pin := func(p rdma.Provider) rdma.Provider { return without{p, rdma.CapPageable} }
		a, b := trimPair(t, f, setup{wrap: pin, wrapPassive: pin})
		flood(t, a, b)
		flood(t, b, a)
		settle(t, a, b)
		tick(2*trimTicks, a, b)
		for _, s := range []*Stream{a, b} {
			if out, in := s.dirty(); !out || !in {
				t.Errorf("after a trim: sent from %v, received %v", out, in)
			}
		}
	})
}

// TestTrimWaitsForSends trims while a message is being sent: no page is given back.
func TestTrimWaitsForSends(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := trimPair(t, f, setup{})
		flood(t, a, b)
		settle(t, a, b)
		for _, drafted := range []bool{false, true} {
			var d draft
			if drafted {
				d, _ = a.tx.draft(1)
			}
			a.tx.mu.Lock()
			last := len(a.tx.free) - 1
			i := a.tx.free[last]
			a.tx.free = a.tx.free[:last] // as a message would
			a.tx.mu.Unlock()
			tick(2*trimTicks, a)
			if out, _ := a.dirty(); !out || !a.noted() {
				t.Errorf("draft %v: pages given back with a message in flight", drafted)
			}
			a.tx.mu.Lock()
			a.tx.free = append(a.tx.free, i)
			a.tx.mu.Unlock()
			if drafted {
				d.drop()
			}
		}
		tick(1, a)
		if out, _ := a.dirty(); out || a.noted() {
			t.Error("no page is given back although no message is in flight")
		}
	})
}

// TestTrimKeepsFetchedData trims with unread data in the spare buffer, where fetches go if
// there is no other memory.
func TestTrimKeepsFetchedData(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{passive: Config{Memory: NewBudget(1)}})
		p := pattern(100_000)
		done := make(chan error, 1)
		go func() {
			_, err := a.Write(p)
			done <- err
		}()
		got := make([]byte, len(p))
		for n := 0; n < len(got); {
			k, err := b.Read(got[n:min(n+3000, len(got))])
			if err != nil {
				t.Fatal(err)
			}
			n += k
			b.trimNow()
		}
		if err := <-done; err != nil || !bytes.Equal(got, p) {
			t.Errorf("%v, or other bytes", err)
		}
	})
}

// trimmingWriter keeps the written data, after it has trimmed the stream of the data.
type trimmingWriter struct {
	s   *Stream
	got []byte
}

func (w *trimmingWriter) Write(p []byte) (int, error) {
	w.s.trimNow()
	w.got = append(w.got, p...)
	return len(p), nil
}

// TestTrimDuringWriteTo trims while a WriteTo uses data.
func TestTrimDuringWriteTo(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{passive: Config{Memory: NewBudget(1)}})
		p := pattern(100_000)
		done := make(chan error, 1)
		go func() {
			_, err := a.Write(p)
			done <- errors.Join(err, a.CloseWrite())
		}()
		w := &trimmingWriter{s: b}
		_, err := b.WriteTo(w)
		if err := errors.Join(err, <-done); err != nil || !bytes.Equal(w.got, p) {
			t.Errorf("%v, or other bytes", err)
		}
	})
}
