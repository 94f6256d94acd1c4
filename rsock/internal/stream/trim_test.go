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

// restNow gives the pages back as the trimmer does for an idle stream, and reports whether it did.
func (s *Stream) restNow() bool {
	s.rx.mu.Lock()
	defer s.rx.mu.Unlock()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.trimmer.discardPagesLocked()
}

// restPair is pair, with rests that the test ticks by hand.
func restPair(t *testing.T, f fabric, u setup) (a, b *Stream) {
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

// tick calls giveBack as the timer would.
func tick(n int, streams ...*Stream) {
	for range n {
		for _, s := range streams {
			s.trimmer.run()
		}
	}
}

// restTicks are those of a rest, after the one that sees that there were messages.
const restTicks = int(bufferIdle / trimInterval)

// settle waits until no message is under way, nor about to be.
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

// noted tells whether there are pages to give back.
func (s *Stream) noted() bool {
	s.rx.mu.Lock()
	defer s.rx.mu.Unlock()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.rx.usage.noted || s.tx.usage.noted
}

// dirty tells whether something is in the whole pages of the buffers that send, and of those
// that receive.
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

// flood sends so much that every buffer is used.
func flood(t *testing.T, from, to *Stream) {
	t.Helper()
	for range 2 * max(DefaultReceiveBuffers, sendBuffers) {
		exchange(t, from, to, pattern(16<<10))
	}
}

// TestRest: the buffers of a connection through which much went hold nothing after a rest, on
// either side, and it goes on as before. Not before the end of the rest is something given back.
func TestRest(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := restPair(t, f, setup{})
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
			tick(restTicks, a, b)
			full("before the rest is over")
			exchange(t, a, b, pattern(1))
			settle(t, a, b)
			tick(restTicks, a, b)
			full("in the middle of a rest that a byte has begun anew")
			tick(1, a, b)
			for _, s := range []*Stream{a, b} {
				if out, in := s.dirty(); out || in || s.noted() {
					t.Errorf("after a rest: sent from %v, received %v, noted %v", out, in, s.noted())
				}
			}
		}
		exchange(t, a, b, pattern(100_000))
		exchange(t, b, a, pattern(100_000))
	})
}

// TestRestIsWorthIt: a message of a byte from a connection that has rested begins no new rest;
// more does.
func TestRestIsWorthIt(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := restPair(t, f, setup{})
		exchange(t, a, b, pattern(trimWorth))
		exchange(t, b, a, pattern(trimWorth))
		settle(t, a, b)
		tick(1+restTicks, a, b)
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

// TestRestBeforeRead: what has arrived, and is not read or not even looked at yet, stays.
func TestRestBeforeRead(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		for n := 1; n <= 6; n++ { // messages that are under way at a time
			p := pattern(n * 10_000)
			for off := 0; off < len(p); off += 10_000 {
				if _, err := a.Write(p[off : off+10_000]); err != nil {
					t.Fatal(err)
				}
				b.restNow()
				a.restNow()
			}
			got := make([]byte, len(p))
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, p) {
				t.Fatalf("%d messages: %v, or other bytes", n, err)
			}
		}
	})
}

// TestRestOfDraft: a buffer that a ReadFrom fills meanwhile stays; the others go.
func TestRestOfDraft(t *testing.T) {
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
		if !a.restNow() {
			t.Fatal("nothing is given back while a ReadFrom has a buffer")
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

// TestRestBesideData gives the pages back again and again while both sides send messages of all
// sizes: no byte is lost.
func TestRestBesideData(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		stop := make(chan struct{})
		var resting, moving sync.WaitGroup
		rested := [2]int{}
		for i, s := range []*Stream{a, b} {
			resting.Go(func() {
				over, end := false, time.Time{}
				for !over || rested[i] == 0 && time.Now().Before(end) {
					if s.restNow() {
						rested[i]++
					}
					runtime.Gosched() // or each turn of the others waits for the end of a time slice
					select {
					case <-stop: // none of the others has anything on its way any more
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
		if rested[0] == 0 || rested[1] == 0 {
			t.Errorf("given back %v times", rested)
		}
	})
}

// TestNoRestOfPinnedMemory: where the provider does not say that pages may go, they stay.
func TestNoRestOfPinnedMemory(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		pin := func(p rdma.Provider) rdma.Provider { return without{p, rdma.CapPageable} }
		a, b := restPair(t, f, setup{wrap: pin, wrapPassive: pin})
		flood(t, a, b)
		flood(t, b, a)
		settle(t, a, b)
		tick(2*restTicks, a, b)
		for _, s := range []*Stream{a, b} {
			if out, in := s.dirty(); !out || !in {
				t.Errorf("after a rest: sent from %v, received %v", out, in)
			}
		}
	})
}

// TestRestOfSend: while something is on its way from a buffer nothing is given back.
func TestRestOfSend(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := restPair(t, f, setup{})
		flood(t, a, b)
		settle(t, a, b)
		for _, lent := range []bool{false, true} {
			var d draft
			if lent {
				d, _ = a.tx.draft(1)
			}
			a.tx.mu.Lock()
			last := len(a.tx.free) - 1
			i := a.tx.free[last]
			a.tx.free = a.tx.free[:last] // as a message would
			a.tx.mu.Unlock()
			tick(2*restTicks, a)
			if out, _ := a.dirty(); !out || !a.noted() {
				t.Errorf("lent %v: given back with a message on its way", lent)
			}
			a.tx.mu.Lock()
			a.tx.free = append(a.tx.free, i)
			a.tx.mu.Unlock()
			if lent {
				d.drop()
			}
		}
		tick(1, a)
		if out, _ := a.dirty(); out || a.noted() {
			t.Error("nothing is given back although no message is on its way any more")
		}
	})
}

// TestRestOfFetched: what was fetched into the end of the control buffers, for want of other
// memory, stays until it is read.
func TestRestOfFetched(t *testing.T) {
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
			b.restNow()
		}
		if err := <-done; err != nil || !bytes.Equal(got, p) {
			t.Errorf("%v, or other bytes", err)
		}
	})
}

// restingWriter keeps what it gets, after a rest of the stream that it comes from.
type restingWriter struct {
	s   *Stream
	got []byte
}

func (w *restingWriter) Write(p []byte) (int, error) {
	w.s.restNow()
	w.got = append(w.got, p...)
	return len(p), nil
}

// TestRestInWriteTo: what a WriteTo is at stays, wherever it is.
func TestRestInWriteTo(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{passive: Config{Memory: NewBudget(1)}})
		p := pattern(100_000)
		done := make(chan error, 1)
		go func() {
			_, err := a.Write(p)
			done <- errors.Join(err, a.CloseWrite())
		}()
		w := &restingWriter{s: b}
		_, err := b.WriteTo(w)
		if err := errors.Join(err, <-done); err != nil || !bytes.Equal(w.got, p) {
			t.Errorf("%v, or other bytes", err)
		}
	})
}
