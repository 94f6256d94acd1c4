package fileio

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// heldServer is a server that keeps the answers to I/O back.
type heldServer struct {
	*rawServer
	arrived chan struct{}

	mu   sync.Mutex
	kept []wire.Header
}

func newHeldServer(t *testing.T, on string, grant uint16) *heldServer {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	share.put("g", pattern(100_000))
	s := &heldServer{rawServer: newRawServer(t, on, share), arrived: make(chan struct{}, 256)}
	s.grant = grant
	s.handle = func(_ *rawConn, h wire.Header, _ []byte) bool {
		if !h.Opcode.IO() {
			return false
		}
		s.mu.Lock()
		s.kept = append(s.kept, h)
		s.mu.Unlock()
		s.arrived <- struct{}{}
		return true
	}
	return s
}

// finish answers the oldest n of the kept requests.
func (s *heldServer) finish(c *rawConn, n int, status ntstatus.Status) {
	s.mu.Lock()
	list := s.kept[:n]
	s.kept = s.kept[n:]
	s.mu.Unlock()
	for _, h := range list {
		c.reply(h, 0, uint32(status))
	}
}

// calls makes calls that are in flight when it returns, and gives their ends.
func (s *heldServer) calls(n int, do func() error) <-chan error {
	ends := make(chan error, n)
	for range n {
		go func() { ends <- do() }()
		<-s.arrived
	}
	return ends
}

func readOf(ctx context.Context, f *File) func() error {
	return func() error { _, err := f.ReadAtContext(ctx, make([]byte, 2000), 0); return err }
}

// order lists the opcodes of the messages of the client, in their order.
func (c *rawConn) order() (list []wire.Opcode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.messages {
		list = append(list, h.Opcode)
	}
	return list
}

// The server is sent a CANCEL when the last of the calls on a file has given up, and not as long
// as a call waits for an answer; the entries are taken until it has answered.
//
// Source: [LWIO §Cancel], [OP-26], [OP-94a], [OP-94b], [OP-113]
func TestCancelFollowsTheLastWaitingCall(t *testing.T) {
	onEach(t, testCancelFollowsTheLastWaitingCall)
}

func testCancelFollowsTheLastWaitingCall(t *testing.T, on string) {
	s := newHeldServer(t, on, 8)
	c := s.connect(base.Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	cn, conn := c.Live(), <-s.accepted
	ctx, cancel := context.WithCancel(t.Context())
	first := s.calls(2, readOf(ctx, f))
	last, cancelLast := context.WithCancel(t.Context())
	second := s.calls(1, readOf(last, f))
	other := s.calls(1, readOf(t.Context(), g))
	cancel()
	for range 2 {
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	third := s.calls(1, func() error { _, err := f.WriteAtContext(last, make([]byte, 10), 0); return err })
	if n := len(conn.seen(wire.OpCancel)); n != 0 {
		t.Errorf("%d CANCEL messages while a call waits", n)
	}
	cancelLast()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-third; !errors.Is(err, context.Canceled) || !errors.Is(err, base.ErrUncertain) {
		t.Error(err)
	}
	waitFor(t, func() bool { return len(conn.seen(wire.OpCancel)) == 1 && freeCredits(cn) == 8-5 })
	h := conn.seen(wire.OpCancel)[0]
	if h.Fid != f.regs[0].Load().fid || h.Length != wire.HeaderSize || h.Flags != wire.FlagInterrupt || h.Cookie == 0 ||
		h.Credits == 0 || h.Sequence == 0 || h.Marker != wire.Marker {
		t.Errorf("%+v", h)
	}
	s.finish(conn, 3, ntstatus.Cancelled)
	s.finish(conn, 1, ntstatus.EndOfFile)
	s.finish(conn, 1, ntstatus.Cancelled)
	if err := <-other; err == nil {
		t.Error("a read of nothing succeeded")
	}
	waitFor(t, func() bool { return freeCredits(cn) == 8 })
	if st := c.Stats(); st.Cancels != 1 || !c.Transport().RDMA() {
		t.Errorf("%d CANCEL messages, transport %v", st.Cancels, c.Transport())
	}
}

// A CANCEL that finds no credit goes out with the first that comes back, before the requests
// that wait for one, and not at all if the credit came with the answer to the cancelled request.
//
// Source: [LWIO §Cancel], [OP-66], [OP-68]
func TestCancelWithoutCredit(t *testing.T) { onEach(t, testCancelWithoutCredit) }

func testCancelWithoutCredit(t *testing.T, on string) {
	for _, grant := range []int{1, 2, 3} {
		s := newHeldServer(t, on, uint16(grant))
		c := s.connect(base.Config{})
		f := openOn(t, c, "f")
		cn, conn := c.Live(), <-s.accepted
		ctx, cancel := context.WithCancel(t.Context())
		ends := s.calls(grant, readOf(ctx, f))
		waits := make(chan error, 1)
		go func() { waits <- readOf(t.Context(), f)() }()
		waitFor(t, func() bool { return cn.Pending() == grant+1 })
		cancel()
		for range grant {
			if err := <-ends; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		s.finish(conn, 1, ntstatus.EndOfFile)
		<-s.arrived // the call that waited
		want := append([]wire.Opcode{wire.OpAuth, wire.OpRegister}, slices.Repeat([]wire.Opcode{wire.OpRead}, grant)...)
		if grant > 1 {
			want = append(want, wire.OpCancel)
		}
		if got := conn.order(); !slices.Equal(got, append(want, wire.OpRead)) {
			t.Errorf("grant %d: the client sent %v", grant, got)
		}
		s.finish(conn, grant-1, ntstatus.Cancelled)
		s.finish(conn, 1, ntstatus.EndOfFile)
		<-waits
		waitFor(t, func() bool { return freeCredits(cn) == grant })
	}
}

// Close stops the calls in flight: they end with fs.ErrClosed, and CLOSE follows.
//
// Source: [LWIO §Close], [LWIO §Cancel], [OP-94b], [OP-94d]
func TestCancelByClose(t *testing.T) { onEach(t, testCancelByClose) }

func testCancelByClose(t *testing.T, on string) {
	s := newHeldServer(t, on, 8)
	c := s.connect(base.Config{})
	f, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := <-s.accepted
	ends := s.calls(3, readOf(t.Context(), f))
	b := c.NewBatch(4)
	defer b.Close()
	if err := b.Read(f, make([]byte, 5000), 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.arrived
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, func() bool { return len(conn.seen(wire.OpClose)) == 1 })
	if order := conn.order(); !slices.Equal(order[len(order)-2:], []wire.Opcode{wire.OpCancel, wire.OpClose}) {
		t.Errorf("the client sent %v", order)
	}
	s.finish(conn, 4, ntstatus.Cancelled)
	for range 3 {
		if err := <-ends; !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	}
	if done, err := b.Wait(t.Context(), 1); err != nil || len(done) != 1 || !errors.Is(done[0].Err, fs.ErrClosed) {
		t.Errorf("%+v, %v", done, err)
	}
	if err := openOn(t, c, "f").Close(); err != nil {
		t.Error(err)
	}
	if n := len(conn.seen(wire.OpCancel)); n != 1 {
		t.Errorf("%d CANCEL messages; nothing was in flight at the second Close", n)
	}
}

// A batch that is closed, and an operation that takes too long, are given up too.
//
// Source: [LWIO §Cancel], [OP-113]
func TestCancelOfBatch(t *testing.T) { onEach(t, testCancelOfBatch) }

func testCancelOfBatch(t *testing.T, on string) {
	s := newHeldServer(t, on, 16)
	c := s.connect(base.Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	cn, conn := c.Live(), <-s.accepted
	b := c.NewBatch(8)
	for i := range uint64(8) {
		file := f
		if i >= 4 {
			file = g
		}
		if err := b.Read(file, make([]byte, 100), 0, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		<-s.arrived
	}
	b.Close()
	waitFor(t, func() bool { return len(conn.seen(wire.OpCancel)) == 2 })
	if sent := conn.seen(wire.OpCancel); sent[0].Fid == sent[1].Fid {
		t.Errorf("CANCEL of file %d twice", sent[0].Fid)
	}
	s.finish(conn, 8, ntstatus.Cancelled)
	waitFor(t, func() bool { return freeCredits(cn) == 16 })
}

// Source: [LWIO §Cancel], [OP-110], [OP-113]
func TestCancelOfRequestPastItsTimeout(t *testing.T) { onEach(t, testCancelOfRequestPastItsTimeout) }

func testCancelOfRequestPastItsTimeout(t *testing.T, on string) {
	s := newHeldServer(t, on, 16)
	c := s.connect(base.Config{Timeout: time.Hour})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	conn := <-s.accepted
	b := c.NewBatch(1)
	defer b.Close()
	if err := b.Read(g, make([]byte, 100), 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := b.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.arrived
	ends := s.calls(1, readOf(context.Background(), f))
	passTimeout(c.Live())
	if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if done, err := b.Wait(t.Context(), 1); err != nil || !errors.Is(done[0].Err, os.ErrDeadlineExceeded) {
		t.Errorf("%+v, %v", done, err)
	}
	waitFor(t, func() bool { return len(conn.seen(wire.OpCancel)) == 2 })
}

// A server that was started again knows the key of an open when the open is reclaimed over SMB. A REGISTER before that
// is repeated, and a refusal for good is one.
func TestUnknownKeyIsRegisteredAgain(t *testing.T) {
	for refusals, registered := range map[int32]bool{1: true, registerAttempts - 1: true, registerAttempts: false} {
		share := newFakeShare()
		share.put("f", pattern(100))
		s := newRawServer(t, "iwarp", share)
		var seen atomic.Int32
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			if h.Opcode != wire.OpRegister || seen.Add(1) > refusals {
				return false
			}
			c.status(h.Cookie, 0, uint32(ntstatus.ObjectNameNotFound))
			return true
		}
		f := openOn(t, s.connect(base.Config{RequireRDMA: true}), "f")
		_, err := f.ReadAt(make([]byte, 10), 0)
		if registered != (err == nil) || !registered && (!errors.Is(err, base.ErrNoRDMA) || seen.Load() != refusals) {
			t.Errorf("after %d refusals and %d messages: %v", refusals, seen.Load(), err)
		}
	}
}

// A file that is closed while its first read registers it is closed, whether the server
// accepts the key or not.
func TestCloseWhileRegistering(t *testing.T) { onEach(t, testCloseWhileRegistering) }

func testCloseWhileRegistering(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100))
	s := newRawServer(t, on, share)
	held := make(chan func(), 1)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpRegister {
			held <- func() { c.status(h.Cookie, 0, uint32(ntstatus.ObjectNameNotFound)) }
		}
		return h.Opcode == wire.OpRegister
	}
	f := openOn(t, s.connect(base.Config{}), "f")
	end := make(chan error, 1)
	go func() { end <- second(f.ReadAt(make([]byte, 10), 0)) }()
	refuse := <-held
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	refuse()
	if err := <-end; !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}
