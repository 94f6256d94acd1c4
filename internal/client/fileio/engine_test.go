package fileio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// pattern is n bytes that tell where they are from.
func pattern(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	r.Read(p)
	return p
}

// openOn opens name and fails the test if that fails.
func openOn(t *testing.T, c *Client, name string) *File {
	t.Helper()
	f, err := c.OpenFile(t.Context(), name, os.O_RDWR|os.O_CREATE, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Source: [LWIO §Read], [OP-60], [OP-91], [OP-92a]
func TestReadOverRDMA(t *testing.T) { onEach(t, testReadOverRDMA) }

func testReadOverRDMA(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(300_000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	c := s.connect(base.Config{})
	if tr := c.Transport(); tr.Name != on || !tr.Keyed || !tr.RDMA() {
		t.Fatalf("transport %+v", tr)
	}
	f := openOn(t, c, "f")
	for _, r := range []struct{ off, n int }{
		{0, 1}, {0, 1024}, {7, 1025}, {1, 64 << 10}, {3, 64<<10 + 1}, {0, len(want)}, {100, 200_000}, {len(want) - 1, 1},
	} {
		p := make([]byte, r.n)
		if n, err := f.ReadAt(p, int64(r.off)); n != r.n || err != nil {
			t.Fatalf("%+v: %d, %v", r, n, err)
		}
		if !bytes.Equal(p, want[r.off:r.off+r.n]) {
			t.Fatalf("%+v: wrong bytes", r)
		}
	}
	for _, r := range []struct{ off, n, want int }{
		{len(want), 1, 0}, {len(want) + 5, 100_000, 0}, {len(want) - 10, 11, 10}, {len(want) - 100_000, 200_000, 100_000}, {len(want) - 3, 5000, 3},
	} {
		p := make([]byte, r.n)
		n, err := f.ReadAt(p, int64(r.off))
		if n != r.want || err != io.EOF { //nolint:errorlint // the contract says bare
			t.Fatalf("%+v: %d, %v", r, n, err)
		}
		if n > 0 && !bytes.Equal(p[:n], want[r.off:]) {
			t.Fatalf("%+v: wrong bytes", r)
		}
	}
	if n, err := f.ReadAt(nil, 1<<40); n != 0 || err != nil {
		t.Fatalf("empty read: %d, %v", n, err)
	}
	for _, off := range []int64{-1, 1<<63 - 1} {
		if _, err := f.ReadAt(make([]byte, 2), off); !errors.Is(err, os.ErrInvalid) {
			t.Fatalf("offset %d: %v", off, err)
		}
	}
	if n := s.sess.counted(&s.sess.smbReads); n != 0 {
		t.Errorf("%d reads went over SMB", n)
	}
	st := c.Stats()
	if st.RDMA.Reads == 0 || st.SMB.Reads != 0 || st.Credits != 16 || st.Connects != 1 || st.InFlight != 0 {
		t.Errorf("stats %+v", st)
	}
}

// Source: [LWIO §Write], [OP-61], [OP-61b]
func TestWriteOverRDMA(t *testing.T) { onEach(t, testWriteOverRDMA) }

func testWriteOverRDMA(t *testing.T, on string) {
	for _, textOnly := range []bool{false, true} {
		share := newFakeShare()
		s := newRawServer(t, on, share)
		s.textOnly = textOnly
		c := s.connect(base.Config{AllowMD5: textOnly})
		f := openOn(t, c, "f")
		want := pattern(200_000)
		for _, cut := range [][2]int{{0, 1}, {1, 4096}, {4096, 8193}, {8193, 100_000}, {100_000, len(want)}} {
			p := want[cut[0]:cut[1]]
			if n, err := f.WriteAt(p, int64(cut[0])); n != len(p) || err != nil {
				t.Fatalf("%v: %d, %v", cut, n, err)
			}
		}
		if !bytes.Equal(share.files["f"].content(), want) {
			t.Fatal("wrong bytes at the server")
		}
		limit := uint32(8 << 10)
		if textOnly {
			limit -= wire.HeaderSize
		}
		longest := uint32(0)
		for _, h := range (<-s.accepted).seen(wire.OpWrite) {
			longest = max(longest, h.Length)
		}
		if longest != limit {
			t.Errorf("textOnly %v: longest write %d, want %d", textOnly, longest, limit)
		}
		if n := s.sess.counted(&s.sess.smbWrites); n != 0 {
			t.Errorf("%d writes went over SMB", n)
		}
	}
}

// Every message agrees with the field matrix.
//
// Source: [LWIO §I/O Processing], [OP-21], [OP-23], [OP-24], [OP-73], [OP-85], [LWIO claim 22]
func TestHeadersFollowFieldMatrix(t *testing.T) { onEach(t, testHeadersFollowFieldMatrix) }

func testHeadersFollowFieldMatrix(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(5000))
	s := newRawServer(t, on, share)
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	if _, err := f.ReadAt(make([]byte, 5000), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 10), 20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	conn := <-s.accepted
	waitFor(t, func() bool { return len(conn.seen(wire.OpClose)) == 1 })
	conn.mu.Lock()
	defer conn.mu.Unlock()
	cookies := map[uint64]bool{}
	for i, h := range conn.messages {
		if h.Marker != 0xFF || h.Flags != wire.FlagInterrupt || h.Cookie == 0 || cookies[h.Cookie] || h.Tid != 0 {
			t.Errorf("message %d: %+v", i, h)
		}
		cookies[h.Cookie] = true
		if i == 0 {
			if h.Opcode != wire.OpAuth || h.Credits != 0 || h.DataMh == 0 || h.Sequence != 0 {
				t.Errorf("AUTH: %+v", h)
			}
			continue
		}
		if int(h.Sequence) != i {
			t.Errorf("message %d has sequence %d", i, h.Sequence)
		}
		if h.Credits != 1 {
			t.Errorf("message %d says %d pending", i, h.Credits)
		}
		if (h.ImmediateCookie != 0) != (h.Opcode == wire.OpRead) || (h.DataVa != 0) != (h.Opcode == wire.OpRead) {
			t.Errorf("message %d: %+v", i, h)
		}
	}
	for i, want := range []struct {
		op     wire.Opcode
		length uint32
	}{{wire.OpAuth, 0}, {wire.OpRegister, 84}, {wire.OpRead, 5000}, {wire.OpWrite, 10}, {wire.OpClose, 48}} {
		h := conn.messages[i]
		if h.Opcode != want.op || i > 0 && h.Length != want.length {
			t.Errorf("message %d: opcode %d, length %d", i, h.Opcode, h.Length)
		}
	}
}

// waitLimit bounds the waits of tests, and testLimit a test without the time limits of requests.
const (
	waitLimit = 30 * time.Second
	testLimit = 3 * time.Minute
)

// limitTest ends the program with the stacks of all goroutines if the test is not over after
// testLimit.
func limitTest(t *testing.T) {
	limit := time.AfterFunc(testLimit, func() {
		debug.SetTraceback("all")
		panic(t.Name() + ": a wait does not end")
	})
	t.Cleanup(func() { limit.Stop() })
}

// waitFor polls until something that another goroutine does has happened.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never happened")
		}
	}
}

// Never are more messages outstanding than the server granted.
//
// Source: [LWIO §Credits], [OP-64], [OP-66]
func TestCreditsAreNeverExceeded(t *testing.T) { onEach(t, testCreditsAreNeverExceeded) }

func testCreditsAreNeverExceeded(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	s.grant = 3
	s.window = 4096
	var mu sync.Mutex
	var held []func()
	most := 0
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpRead {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		held = append(held, func() { c.answer(h, body) })
		most = max(most, len(held))
		if len(held) == 3 {
			for _, answer := range held {
				answer()
			}
			held = nil
		}
		return true
	}
	c := s.connect(base.Config{})
	// Every message takes one of these, and gives it back when it was answered.
	if n := freeCredits(c.Live()); n != 3 || c.MaxInFlight() != 3 {
		t.Fatalf("%d credits, granted 3", n)
	}
	f := openOn(t, c, "f")
	p := make([]byte, 3*4096*4)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	if most != 3 {
		t.Errorf("%d in flight at most, granted 3", most)
	}
	if !bytes.Equal(p, share.files["f"].content()[:len(p)]) {
		t.Error("wrong bytes")
	}
}

func TestManyCallersShareTheCredits(t *testing.T) { onEach(t, testManyCallersShareTheCredits) }

func testManyCallersShareTheCredits(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(1 << 20)
	share.put("f", want)
	s := newRawServer(t, on, share)
	s.grant = 4
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	g := openOn(t, c, "g")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			p := make([]byte, 200_000)
			for range 20 {
				off, n := r.IntN(len(want)-len(p)), r.IntN(len(p))
				if _, err := f.ReadAt(p[:n], int64(off)); err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(p[:n], want[off:off+n]) {
					t.Error("wrong bytes")
					return
				}
				if _, err := g.WriteAt(p[:n/8], int64(off)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Source: [OP-33], [OP-56]
func TestFileThatServerKeepsOnSMB(t *testing.T) { onEach(t, testFileThatServerKeepsOnSMB) }

func testFileThatServerKeepsOnSMB(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", []byte("hello"))
	s := newRawServer(t, on, share)
	s.sess.noFile = true
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	p := make([]byte, 5)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "hello" {
		t.Fatalf("%q, %v", p, err)
	}
	if tr := f.Transport(); tr.Name != base.TransportSMB || !strings.Contains(tr.Reason, "does not offer") {
		t.Errorf("transport %v", tr)
	}
	c.Cfg.RequireRDMA = true
	if _, err := f.ReadAt(p, 0); !errors.Is(err, base.ErrNoRDMA) {
		t.Errorf("%v", err)
	}
}

// A status of the server reaches the caller, with the bytes done before it.
func TestRemoteStatus(t *testing.T) { onEach(t, testRemoteStatus) }

func testRemoteStatus(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpWrite && h.Offset >= 16<<10 {
			c.status(h.Cookie, 0, uint32(ntstatus.DiskFull))
			return true
		}
		return false
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	n, err := f.WriteAt(make([]byte, 50_000), 0)
	var e *base.Error
	if n != 16<<10 || !errors.As(err, &e) || !e.Remote || e.Status != ntstatus.DiskFull || errors.Is(err, base.ErrUncertain) {
		t.Fatalf("%d, %v", n, err)
	}
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatalf("the connection did not outlive an error status: %v", err)
	}
}

// dueWhen is a context whose deadline passes once come says so, so that a call with that
// deadline is given up at the same point however busy the machine is.
func dueWhen(t *testing.T, come func() bool) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil && !come() {
			time.Sleep(time.Millisecond)
		}
	}()
	return due{ctx}
}

// due is a context that says that its deadline has passed when it ends.
type due struct{ context.Context }

// Value keeps contexts that are made of this one from seeing its parent.
func (due) Value(any) any { return nil }

func (due) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }

func (d due) Err() error {
	if d.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// Source: [LWIO §Cancel], [OP-94a], [OP-110], [OP-113]
func TestCallEndsAtDeadline(t *testing.T) { onEach(t, testCallEndsAtDeadline) }

func testCallEndsAtDeadline(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	s.grant = 4
	release, held := make(chan struct{}), make(chan struct{}, 2)
	var late sync.WaitGroup
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpRead && h.Opcode != wire.OpWrite || h.Offset != 77 {
			return false
		}
		late.Go(func() {
			<-release
			c.status(h.Cookie, 0, uint32(ntstatus.Cancelled))
		})
		held <- struct{}{}
		return true
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	ctx := dueWhen(t, func() bool { return len(held) == 1 })
	if _, err := f.ReadAtContext(ctx, make([]byte, 10), 77); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ctx = dueWhen(t, func() bool { return len(held) == 2 })
	if _, err := f.WriteAtContext(ctx, make([]byte, 10), 77); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, base.ErrUncertain) {
		t.Fatal(err)
	}
	cn := c.Live()
	conn := <-s.accepted
	// 2 of 4 requests are outstanding; the server was asked to cancel them.
	waitFor(t, func() bool { return len(conn.seen(wire.OpCancel)) == 2 && freeCredits(cn) == 2 })
	syncing, cancelSync := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelSync()
	if err := f.Sync(syncing); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Sync did not wait for a write that was given up: %v", err)
	}
	<-held
	<-held
	close(release)
	late.Wait()
	waitFor(t, func() bool { return freeCredits(cn) == 4 })
	if err := f.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if c.Transport().Name != on {
		t.Errorf("transport %v", c.Transport())
	}
}

// passTimeout does the work of the watchdog for a bit more than Config.Timeout. A
// client whose own watchdog is not to come in between has a timeout of an hour.
func passTimeout(c *rdmaconn.Conn) {
	for range rdmaconn.WatchParts + 1 {
		c.Watch()
	}
}

// A server that is silent for good ends calls without a deadline too, and then
// the connection.
func TestSilentServerEndsCallsThenConnection(t *testing.T) {
	onEach(t, testSilentServerEndsCallsThenConnection)
}

func testSilentServerEndsCallsThenConnection(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	asked := make(chan struct{}, 1)
	s.handle = func(_ *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpRead {
			asked <- struct{}{}
		}
		return h.Opcode == wire.OpRead
	}
	c := s.connect(base.Config{Timeout: time.Hour})
	f, cn := openOn(t, c, "f"), c.Live()
	done := make(chan error, 1)
	go func() { done <- second(f.ReadAt(make([]byte, 10), 0)) }()
	<-asked
	passTimeout(cn)
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if cn.IsDown() {
		t.Error("the connection ended with the call")
	}
	passTimeout(cn)
	waitFor(t, func() bool { return !c.Transport().RDMA() })
	if n, err := f.ReadAt(make([]byte, 10), 0); n != 10 || err != nil {
		t.Fatalf("over SMB: %d, %v", n, err)
	}
}

// Source: [OP-94f], [OP-112]
func TestLostConnectionGoesOnOverSMB(t *testing.T) { onEach(t, testLostConnectionGoesOnOverSMB) }

func testLostConnectionGoesOnOverSMB(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(100_000)
	share.put("f", want)
	share.put("g", nil)
	s := newRawServer(t, on, share)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Offset < 50_000 {
			return false
		}
		c.cut()
		return true
	}
	t.Run("read", func(t *testing.T) {
		c := s.connect(base.Config{})
		f := openOn(t, c, "f")
		p := make([]byte, len(want))
		if n, err := f.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, want) {
			t.Fatalf("%d, %v", n, err)
		}
		if tr := c.Transport(); tr.Name != base.TransportSMB || !strings.Contains(tr.Reason, "connection lost") {
			t.Errorf("transport %v", tr)
		}
		if st := c.Stats(); st.Lost != 1 || st.SMB.Reads == 0 {
			t.Errorf("stats %+v", st)
		}
	})
	t.Run("write", func(t *testing.T) {
		c := s.connect(base.Config{})
		g := openOn(t, c, "g")
		before := s.sess.counted(&s.sess.negotiations)
		n, err := g.WriteAt(want, 0)
		if n == len(want) || !errors.Is(err, net.ErrClosed) || !errors.Is(err, base.ErrUncertain) {
			t.Fatalf("%d, %v", n, err)
		}
		if s.sess.counted(&s.sess.smbWrites) != 0 {
			t.Fatal("a write was repeated over SMB")
		}
		if n, err := g.WriteAt(want, 0); n != len(want) || err != nil {
			t.Fatalf("over SMB: %d, %v", n, err)
		}
		if after := s.sess.counted(&s.sess.negotiations); after != before+1 {
			t.Errorf("%d NEGOTIATEs before the first write over SMB, want 1", after-before)
		}
		s.sess.noFences = true
		if n, err := g.WriteAt(want, 0); n != len(want) || err != nil {
			t.Fatalf("a second fence: %d, %v", n, err)
		}
		s.sess.noFences = false
	})
	t.Run("no fence, no write", func(t *testing.T) {
		c := s.connect(base.Config{})
		g := openOn(t, c, "g")
		if _, err := g.WriteAt(want, 0); !errors.Is(err, base.ErrUncertain) {
			t.Fatal(err)
		}
		s.sess.noFences = true
		defer func() { s.sess.noFences = false }()
		if _, err := g.WriteAt(want, 0); !errors.Is(err, errFakePipe) {
			t.Fatal(err)
		}
	})
	t.Run("RDMA required", func(t *testing.T) {
		c := s.connect(base.Config{RequireRDMA: true})
		f := openOn(t, c, "f")
		if _, err := f.ReadAt(make([]byte, len(want)), 0); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, base.ErrNoRDMA) {
			t.Fatal(err)
		}
	})
}

// Closing the client fails the calls in flight, at once.
func TestCloseWhileReading(t *testing.T) { onEach(t, testCloseWhileReading) }

func testCloseWhileReading(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	asked := make(chan struct{}, 1)
	s.handle = func(_ *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpRead {
			asked <- struct{}{}
			return true
		}
		return false
	}
	c := s.connect(base.Config{RequireRDMA: true})
	f := openOn(t, c, "f")
	done := make(chan error)
	go func() {
		_, err := f.ReadAt(make([]byte, 2000), 0)
		done <- err
	}()
	<-asked
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A closed connection does not count as lost, and calls after the close name the close
// as their cause.
func TestCallsAfterCloseNameTheClose(t *testing.T) { onEach(t, testCallsAfterCloseNameTheClose) }

func testCallsAfterCloseNameTheClose(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(1000))
	s := newRawServer(t, on, share)
	var log strings.Builder
	c := s.connect(base.Config{RequireRDMA: true, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	f := openOn(t, c, "f")
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	_, read := f.ReadAt(make([]byte, 10), 0)
	_, write := f.WriteAt(make([]byte, 10), 0)
	for _, err := range []error{read, write, f.Sync(t.Context())} {
		if !errors.Is(err, net.ErrClosed) || errors.Is(err, base.ErrNoRDMA) {
			t.Error(err)
		}
	}
	if st := c.Stats(); st.Lost != 0 || st.Connects != 1 {
		t.Errorf("stats %+v", st)
	}
	if tr := c.Transport(); tr.RDMA() || !strings.Contains(tr.Reason, "closed") {
		t.Errorf("transport %v", tr)
	}
	if log.Len() != 0 {
		t.Errorf("an ordinary end is logged: %s", log.String())
	}
}

// Verbs that need no RDMA, on a session in memory.
func TestVerbsOverFakeSession(t *testing.T) {
	share := newFakeShare()
	share.put("d/f", []byte("x"))
	share.put("d", nil)
	share.files["d"].dir = true
	c, sess := overSMB(t, share)
	list, err := c.ReadDir(t.Context(), "d")
	if err != nil || len(list) != 1 || list[0].Name() != "f" {
		t.Fatalf("%v, %v", list, err)
	}
	if err := c.Rename(t.Context(), "d/f", "g"); err != nil || share.files["g"] == nil {
		t.Error(err)
	}
	if err := c.Remove(t.Context(), "g"); err != nil || share.files["g"] != nil {
		t.Error(err)
	}
	f := openOn(t, c, "h")
	if _, err := f.WriteAt([]byte("abc"), 1); err != nil {
		t.Error(err)
	}
	if err := f.Sync(t.Context()); err != nil || sess.counted(&sess.flushes) != 1 {
		t.Error(err)
	}
	if tr := f.Transport(); tr.Name != base.TransportSMB || tr.Reason != "LWIO is off at the server" {
		t.Errorf("%+v", tr)
	}
	if st := c.Stats(); st.SMB.Writes != 1 || st.SMB.WrittenBytes != 3 || st.RDMA != (base.Traffic{}) {
		t.Errorf("%+v", st)
	}
}
