package fileio

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// pollingServer is a raw server whose clients poll.
func pollingServer(t *testing.T, on string, files map[string][]byte) *rawServer {
	t.Helper()
	share := newFakeShare()
	for name, data := range files {
		share.put(name, data)
	}
	s := newRawServer(t, on, share)
	s.mode = base.Polling
	return s
}

// A request for a status block names its address, and each request in flight has its own;
// a request that is no I/O asks for messages.
//
// Source: [LWIO §I/O Processing], [LWIO claim 19], [LWIO claim 20], [OP-24], [OP-89], [OP-95]
func TestPolledMessages(t *testing.T) { onEach(t, testPolledMessages) }

func testPolledMessages(t *testing.T, on string) {
	want := pattern(300_000)
	s := pollingServer(t, on, map[string][]byte{"f": want})
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	for _, n := range []int{1, 1024, 1025, 70_000, len(want)} {
		p := make([]byte, n)
		if m, err := f.ReadAt(p, 0); m != n || err != nil || !bytes.Equal(p, want[:n]) {
			t.Fatalf("%d: %d, %v", n, m, err)
		}
		if m, err := f.WriteAt(p, 0); m != n || err != nil {
			t.Fatalf("%d: %d, %v", n, m, err)
		}
	}
	conn := <-s.accepted
	conn.mu.Lock()
	defer conn.mu.Unlock()
	places := map[uint64]bool{}
	for i, h := range conn.messages {
		if h.Interrupt() == h.Opcode.IO() {
			t.Errorf("message %d: opcode %d, flags %#x", i, h.Opcode, h.Flags)
		}
		if !h.Opcode.IO() {
			continue
		}
		if h.IosVa%8 != 0 || h.IosMh == 0 || h.Flags != 0 || h.Cookie != 0 || h.ImmediateCookie != 0 {
			t.Errorf("message %d: %+v", i, h)
		}
		places[h.IosVa] = true
	}
	if len(places) < 2 {
		t.Error("several requests in flight had one status block")
	}
	if n := c.Stats().Polled; int(n) != len(places) && n < 10 {
		t.Errorf("%d requests counted", n)
	}
}

// A poller that falls asleep says how many requests it has not seen complete, and
// the answer wakes it. No other goroutine asks for the same.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-93a], [OP-93c], [OP-93f]
func TestAnswerWakesSleepingPoller(t *testing.T) { onEach(t, testAnswerWakesSleepingPoller) }

func testAnswerWakesSleepingPoller(t *testing.T, on string) {
	want := pattern(10_000)
	s := pollingServer(t, on, map[string][]byte{"f": want})
	s.grant = 8
	const readers = 6
	var mu sync.Mutex
	var held []func()
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpRead {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		held = append(held, func() { c.answer(h, body) })
		return true
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	if n := freeCredits(c.Live()); n != 7 {
		t.Errorf("%d of 8 credits for I/O, want 7: one is for INTERRUPT", n)
	}
	var wg sync.WaitGroup
	for i := range readers {
		ctx := context.Background()
		if i%2 == 0 {
			ctx = t.Context() // it could end
		}
		wg.Go(func() {
			p := make([]byte, 100)
			if _, err := f.ReadAtContext(ctx, p, 7); err != nil || !bytes.Equal(p, want[7:107]) {
				t.Errorf("%v", err)
			}
		})
	}
	conn := <-s.accepted
	for range readers {
		// A goroutine sleeps, and has said so.
		waitFor(t, func() bool {
			conn.mu.Lock()
			defer conn.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			return conn.armed != 0 && len(held) > 0
		})
		mu.Lock()
		answer := held[len(held)-1]
		held = held[:len(held)-1]
		mu.Unlock()
		answer()
	}
	wg.Wait()
	interrupts := conn.seen(wire.OpInterrupt)
	for _, h := range interrupts {
		if h.Flags != wire.FlagInterrupt|wire.FlagControl || h.Credits < 1 || h.Credits > readers {
			t.Errorf("%+v", h)
		}
	}
	counts := &c.Counts
	if n, spurious := counts.Wakeups.Load(), counts.Spurious.Load(); n < readers-1 || n > readers || spurious > n {
		// Another call may see an answer before its wake-up; the last may be seen
		// before its wake-up is.
		t.Errorf("%d wake-ups, %d of them spurious, for %d answers", n, spurious, readers)
	}
}

// An INTERRUPT that crosses a completion is answered at once, and a wake-up that
// brings nothing is counted.
//
// Source: [OP-93a], [OP-93b], [OP-93f]
func TestSpuriousWakeUp(t *testing.T) { onEach(t, testSpuriousWakeUp) }

func testSpuriousWakeUp(t *testing.T, on string) {
	s := pollingServer(t, on, map[string][]byte{"f": pattern(10_000)})
	asked := 0
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpInterrupt {
			if asked++; asked <= 3 {
				c.status(h.Cookie, 0, 0) // though nothing has happened
				return true
			}
			c.mu.Lock()
			read := c.messages[len(c.messages)-1-asked]
			c.mu.Unlock()
			c.status(h.Cookie, 0, uint32(ntstatus.DeviceBusy))
			c.answer(read, nil)
		}
		return h.Opcode == wire.OpRead || h.Opcode == wire.OpInterrupt
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	if _, err := f.ReadAt(make([]byte, 100), 0); err != nil {
		t.Fatal(err)
	}
	counts := &c.Counts
	if n, spurious := counts.Wakeups.Load(), counts.Spurious.Load(); n < 3 || spurious < 3 {
		t.Errorf("%d wake-ups, %d of them spurious", n, spurious)
	}
}

// A status block with any content does no harm.
//
// Source: [OP-89], [OP-90], [OP-113]
func TestHostileStatusBlocks(t *testing.T) { onEach(t, testHostileStatusBlocks) }

func testHostileStatusBlocks(t *testing.T, on string) {
	block := func(c *rawConn, h wire.Header, information, status uint32) {
		c.write(h.IosVa, h.IosMh, wire.IOStatusBlock{Information: information, Status: status}.AppendTo(nil))
	}
	for name, hostile := range map[string]struct {
		answer func(c *rawConn, h wire.Header, body []byte)
		lost   bool  // the connection
		err    error // of the read, nil for right bytes in the end
	}{
		"more bytes than asked for": {answer: func(c *rawConn, h wire.Header, _ []byte) { block(c, h, h.Length+1, 0) }, lost: true},
		"all ones":                  {answer: func(c *rawConn, h wire.Header, _ []byte) { block(c, h, 1<<32-1, 1<<32-1) }, err: ntstatus.Status(1<<32 - 1)},
		"garbage":                   {answer: func(c *rawConn, h wire.Header, _ []byte) { block(c, h, 0xDEADBEEF, 0xC0DEC0DE) }, err: ntstatus.Status(0xC0DEC0DE)},
		"success of nothing":        {answer: func(c *rawConn, h wire.Header, _ []byte) { block(c, h, 0, 0) }, err: base.ErrProtocol},
		"never set":                 {answer: func(*rawConn, wire.Header, []byte) {}, err: os.ErrDeadlineExceeded},
		"set to pending": {answer: func(c *rawConn, h wire.Header, _ []byte) {
			block(c, h, 5, uint32(ntstatus.Pending))
		}, err: os.ErrDeadlineExceeded},
		"set twice": {answer: func(c *rawConn, h wire.Header, body []byte) {
			c.answer(h, body)
			block(c, h, 1, uint32(ntstatus.DiskFull))
		}},
		"half of it": {answer: func(c *rawConn, h wire.Header, _ []byte) {
			c.write(h.IosVa+4, h.IosMh, make([]byte, 4))
		}, lost: true}, // success, and more bytes than there are
		"beside it":           {answer: func(c *rawConn, h wire.Header, _ []byte) { c.write(h.IosVa-1<<20, h.IosMh, make([]byte, 8)) }, lost: true},
		"with another handle": {answer: func(c *rawConn, h wire.Header, _ []byte) { c.write(h.IosVa, h.IosMh+1, make([]byte, 8)) }, lost: true},
		"a message instead": {answer: func(c *rawConn, h wire.Header, _ []byte) {
			// The only cookies that it knows are of the past.
			for _, m := range c.seen(wire.OpRegister) {
				c.status(m.Cookie, 1, 0)
			}
		}, lost: true},
		"a guessed cookie": {answer: func(c *rawConn, _ wire.Header, _ []byte) {
			for i := range uint64(8) {
				c.status(3<<indexBits|i+1, 1, 0)
			}
		}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			want := pattern(3000)
			s := pollingServer(t, on, map[string][]byte{"f": want})
			done, asked := false, make(chan struct{})
			s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
				if h.Opcode != wire.OpRead || done {
					return false
				}
				done = true
				hostile.answer(c, h, body)
				if errors.Is(hostile.err, os.ErrDeadlineExceeded) {
					close(asked)
				} else {
					c.wake()
				}
				return true
			}
			c := s.connect(base.Config{Timeout: time.Hour})
			f, cn := openOn(t, c, "f"), c.Live()
			go func() {
				select {
				case <-asked:
					passTimeout(cn)
				case <-t.Context().Done():
				}
			}()
			p := make([]byte, len(want))
			n, err := f.ReadAt(p, 0)
			if name == "set twice" && errors.Is(err, ntstatus.DiskFull) {
				err = nil // the second came before any goroutine looked
				n = copy(p, want)
			}
			if hostile.err == nil && (n != len(p) || err != nil || !bytes.Equal(p, want)) || !errors.Is(err, hostile.err) {
				t.Fatalf("%d, %v", n, err)
			}
			if hostile.lost {
				waitFor(t, func() bool { return !c.Transport().RDMA() })
			} else {
				// The answer to its REGISTER is a message, which comes after all that was written.
				if _, _, err := openOn(t, c, "f").pathFor(t.Context(), c.Paths[0], access{}); err != nil {
					t.Fatal(err)
				}
			}
			for range 40 { // more than there are entries
				clear(p)
				if _, err := f.ReadAt(p, 0); err != nil || !bytes.Equal(p, want) {
					t.Fatalf("afterwards: %v", err)
				}
			}
		})
	}
}

// An answer to INTERRUPT that no server may send ends the connection.
func TestHostileWakeUp(t *testing.T) { onEach(t, testHostileWakeUp) }

func testHostileWakeUp(t *testing.T, on string) {
	want := pattern(3000)
	s := pollingServer(t, on, map[string][]byte{"f": want})
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpInterrupt {
			c.status(h.Cookie, 0, uint32(ntstatus.NotSupported))
		}
		return h.Opcode == wire.OpInterrupt || h.Opcode == wire.OpRead
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	p := make([]byte, len(want))
	if _, err := f.ReadAt(p, 0); err != nil || !bytes.Equal(p, want) {
		t.Fatal(err) // over SMB
	}
	if tr := c.Transport(); tr.RDMA() {
		t.Error(tr)
	}
}

// A polled request that was given up keeps its entry and its status block until the
// answer comes, which no call waits for.
//
// Source: [OP-94a], [OP-113]
func TestLateStatusBlock(t *testing.T) { onEach(t, testLateStatusBlock) }

func testLateStatusBlock(t *testing.T, on string) {
	want := pattern(10_000)
	s := pollingServer(t, on, map[string][]byte{"f": want})
	s.grant = 4
	held := s.holdReads(8)
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	for i := range 3 {
		ctx := dueWhen(t, func() bool { return len(held) == i+1 })
		if _, err := f.ReadAtContext(ctx, make([]byte, 100), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	cn := c.Live()
	if n := freeCredits(cn); n != 0 {
		t.Errorf("%d credits free while 3 of 4 requests are outstanding and 1 is for INTERRUPT", n)
	}
	for range 3 {
		(<-held)()
	}
	waitFor(t, func() bool { return freeCredits(cn) == 3 })
	p := make([]byte, 100)
	if _, err := f.ReadAt(p, 1); err != nil || !bytes.Equal(p, want[1:101]) || !c.Transport().RDMA() {
		t.Error(err, c.Transport())
	}
}

// A client with a single credit keeps none for INTERRUPT, so all of its answers are messages.
//
// Source: [OP-93f], [OP-69]
func TestPollingWithFewCredits(t *testing.T) { onEach(t, testPollingWithFewCredits) }

func testPollingWithFewCredits(t *testing.T, on string) {
	want := pattern(10_000)
	s := pollingServer(t, on, map[string][]byte{"f": want})
	s.grant = 6
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	read := func() wire.Header {
		t.Helper()
		p := make([]byte, 100)
		if _, err := f.ReadAt(p, 7); err != nil || !bytes.Equal(p, want[7:107]) || !c.Transport().RDMA() {
			t.Fatal(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		list := s.conns[0].seen(wire.OpRead)
		return list[len(list)-1]
	}
	if h := read(); h.Interrupt() {
		t.Error("not polled for")
	}
	conn := <-s.accepted
	conn.status(0, uint32(0xFFFFFFFF-4), wire.NotifyCredit) // five less
	waitFor(t, func() bool { return c.MaxInFlight() == 1 && freeCredits(c.Live()) == 1 })
	for range 3 {
		if h := read(); !h.Interrupt() {
			t.Error("polled for with one credit")
		}
	}
	conn.status(0, 3, wire.NotifyCredit) // three more
	waitFor(t, func() bool { return c.MaxInFlight() == 4 && freeCredits(c.Live()) == 3 })
	if h := read(); h.Interrupt() {
		t.Error("not polled for, though there are credits again")
	}
}

// A read has its data in memory when it returns, whether a status block or a message answers it, and
// whichever goroutine is the poller.
func TestPollersAndSleepersGetTheirData(t *testing.T) { onEach(t, testPollersAndSleepersGetTheirData) }

func testPollersAndSleepersGetTheirData(t *testing.T, on string) {
	want := pattern(1 << 20)
	for _, mode := range []base.CompletionMode{base.Adaptive, base.Polling, base.Interrupt} {
		t.Run(mode.String(), func(t *testing.T) {
			s := pollingServer(t, on, map[string][]byte{"f": want})
			s.mode, s.grant = mode, 6
			c := s.connect(base.Config{})
			f := openOn(t, c, "f")
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(2, uint64(i)))
					p := make([]byte, 70_000)
					for range 60 {
						ctx, cancel := context.Background(), func() {}
						if i%3 == 0 {
							ctx, cancel = context.WithTimeout(ctx, time.Minute)
						}
						n := 1 + r.IntN(1<<r.IntN(17))
						off := r.IntN(len(want) - n)
						_, err := f.ReadAtContext(ctx, p[:n], int64(off))
						cancel()
						if err != nil || !bytes.Equal(p[:n], want[off:off+n]) {
							t.Error("wrong bytes or", err)
							return
						}
					}
				})
			}
			wg.Wait()
			if !c.Transport().RDMA() {
				t.Error(c.Transport())
			}
		})
	}
}
