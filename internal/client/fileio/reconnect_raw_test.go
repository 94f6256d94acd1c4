package fileio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/wire"
)

// cutting is a server of the files f and g that cuts its first connection when a request
// for offset 77 comes.
func cutting(t *testing.T, on string) *rawServer {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	share.put("g", nil)
	s := newRawServer(t, on, share)
	var cut atomic.Bool
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Offset != 77 || !h.Opcode.IO() || cut.Swap(true) {
			return false
		}
		c.cut()
		return true
	}
	return s
}

// away takes RDMA off the server, or gives it back.
func (s *rawServer) away(on bool) {
	s.sess.mu.Lock()
	defer s.sess.mu.Unlock()
	if on {
		s.sess.hidden, s.sess.offers = s.sess.offers, nil
	} else {
		s.sess.offers = s.sess.hidden
	}
}

// A write is sent again under its old number, before anything else is sent on the new
// connection but REGISTER, and the numbers go on.
//
// Source: [OP-21], [OP-112]
func TestReplayComesFirst(t *testing.T) { onEach(t, testReplayComesFirst) }

func testReplayComesFirst(t *testing.T, on string) {
	s := cutting(t, on)
	s.echoes = true
	c := s.connect(base.Config{ReconnectTimeout: time.Minute})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	want := pattern(30_000)
	calls.Go(func() {
		if n, err := g.WriteAt(want, 77); n != len(want) || err != nil {
			t.Error(n, err)
		}
	})
	first := <-s.accepted
	<-first.gone
	for range 4 {
		calls.Go(func() {
			if _, err := f.ReadAt(make([]byte, 2000), 0); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	second := <-s.accepted
	if got := s.share.files["g"].content()[77:]; !bytes.Equal(got, want) {
		t.Error("wrong bytes at the server")
	}
	sent := first.all()
	next := sent[len(sent)-1].Sequence + 1 // at least: some may not have arrived
	messages := second.all()
	base := messages[1].Sequence - 1
	if int16(base-next) < 0 {
		t.Errorf("the numbers go on with %d after %d", base, next)
	}
	again, fresh := 0, 0
	for _, h := range messages[1:] {
		switch old := int16(h.Sequence-base) <= 0; {
		case old && (h.Opcode != wire.OpWrite || fresh > 0):
			t.Errorf("%v is sent again after %d new messages", h.Opcode, fresh)
		case old:
			again++
		case h.Opcode != wire.OpRegister:
			fresh++
		}
	}
	if st := c.Stats(); again == 0 || st.ReplayedWrites != uint64(again) || st.Reconnects != 1 || st.Lost != 1 || st.Connects != 2 {
		t.Errorf("%d sent again, %+v", again, st)
	}
	if tr := c.Transport(); !tr.RDMA() || !strings.Contains(tr.Reason, "lost connection") {
		t.Error(tr)
	}
}

// A server that does not know the outcome of writes leaves them uncertain, and later calls
// go over the new connection, after a NEGOTIATE with the old key.
//
// Source: [OP-112]
func TestServerWithoutReplayCacheLeavesWritesUncertain(t *testing.T) {
	onEach(t, testServerWithoutReplayCache)
}

func testServerWithoutReplayCache(t *testing.T, on string) {
	for _, how := range []string{"write", "segments", "batch"} {
		s := cutting(t, on)
		c := s.connect(base.Config{ReconnectTimeout: time.Minute})
		g := openOn(t, c, "g")
		var n int
		var err error
		switch p := make([]byte, 20_000); how {
		case "write":
			n, err = g.WriteAt(p, 77)
		case "segments":
			n, err = g.WriteVec(t.Context(), [][]byte{p[:1000], p[1000:]}, 77)
		default:
			b := c.NewBatch(1)
			if err := b.Write(g, p, 77, 0); err != nil {
				t.Fatal(err)
			}
			list, e := b.Wait(t.Context(), 1)
			if e != nil || len(list) != 1 {
				t.Fatal(list, e)
			}
			n, err = list[0].N, list[0].Err
			b.Close()
		}
		if n != 0 || !errors.Is(err, base.ErrUncertain) || !errors.Is(err, net.ErrClosed) || !errors.Is(err, errForgotten) {
			t.Errorf("%s: %d, %v", how, n, err)
		}
		if n, err := g.WriteAt([]byte("x"), 5); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", how, n, err)
		}
		if tr, n := c.Transport(), s.sess.counted(&s.sess.negotiations); !tr.RDMA() || n != 2 || s.sess.counted(&s.sess.smbWrites) != 0 {
			t.Errorf("%s: %v, %d negotiations", how, tr, n)
		}
	}
}

// As long as there is no RDMA calls wait, and then go over SMB, with a fence; when there
// is RDMA again they use it.
//
// Source: [OP-112]
func TestCallsUseSMBUntilRDMAIsBack(t *testing.T) { onEach(t, testCallsUseSMBUntilRDMAIsBack) }

func testCallsUseSMBUntilRDMAIsBack(t *testing.T, on string) {
	s := cutting(t, on)
	c := s.connect(base.Config{ReconnectTimeout: 20 * time.Millisecond})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	if _, err := g.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	s.away(true)
	if n, err := f.ReadAt(make([]byte, 2000), 77); n != 2000 || err != nil {
		t.Error(n, err)
	}
	if tr := c.Transport(); tr.RDMA() || !strings.Contains(tr.Reason, "connection lost") {
		t.Error(tr)
	}
	if n, err := g.WriteAt(pattern(10_000), 0); n != 10_000 || err != nil {
		t.Error(n, err)
	}
	if s.sess.counted(&s.sess.smbReads) == 0 || s.sess.counted(&s.sess.smbWrites) == 0 {
		t.Error("it did not go over SMB")
	}
	c.Cfg.RequireRDMA = true
	if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, base.ErrNoRDMA) || !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	s.away(false)
	waitFor(t, func() bool { return c.Transport().RDMA() })
	before := c.Stats().RDMA.Reads
	p := make([]byte, 10_000)
	if n, err := g.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, pattern(10_000)) {
		t.Error(n, err)
	}
	if st := c.Stats(); st.RDMA.Reads != before+1 || st.Reconnects != 1 {
		t.Errorf("%+v", st)
	}
}

// Calls that wait for a connection end with their context, and with the client.
//
// Source: [OP-113]
func TestWaitingForAConnectionEnds(t *testing.T) { onEach(t, testWaitingEnds) }

func testWaitingEnds(t *testing.T, on string) {
	s := cutting(t, on)
	s.echoes = true
	c := s.connect(base.Config{ReconnectTimeout: time.Hour})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	s.away(true)
	cn := c.Live()
	if _, err := g.WriteAtContext(dueWhen(t, cn.IsDown), make([]byte, 10), 77); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, base.ErrUncertain) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.ReadAtContext(ctx, make([]byte, 10), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	b := c.NewBatch(2)
	defer b.Close()
	if err := b.Read(f, make([]byte, 10), 0, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if list, err := b.Wait(ctx, 1); len(list) != 0 || !errors.Is(err, context.DeadlineExceeded) || b.Pending() != 1 {
		t.Error(list, err)
	}
	done := make(chan error)
	go func() {
		_, err := f.ReadAt(make([]byte, 10), 0)
		done <- err
	}()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// The loss of the SMB session ends all connections, and no call reconnects any more.
func TestSessionLossEndsReconnection(t *testing.T) { onEach(t, testSessionLossEndsReconnection) }

func testSessionLossEndsReconnection(t *testing.T, on string) {
	s := cutting(t, on)
	c := s.connect(base.Config{ReconnectTimeout: time.Hour, RequireRDMA: true})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	s.sess.lose(fmt.Errorf("the server has gone: %w", net.ErrClosed))
	if _, err := g.WriteAt(make([]byte, 10), 77); !errors.Is(err, net.ErrClosed) || !errors.Is(err, base.ErrUncertain) {
		t.Error(err)
	}
	if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, base.ErrNoRDMA) || !strings.Contains(err.Error(), "SMB session has ended") {
		t.Error(err)
	}
	c.Maintainers.Wait()
}

// A request that breaks every connection breaks a bounded number of them.
func TestPoisonBreaksBoundedConnections(t *testing.T) { onEach(t, testPoisonBreaksBoundedConnections) }

func testPoisonBreaksBoundedConnections(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(1000))
	s := newRawServer(t, on, share)
	s.echoes = true
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode.IO() {
			c.cut()
		}
		return h.Opcode.IO()
	}
	c := s.connect(base.Config{ReconnectTimeout: time.Second})
	f := openOn(t, c, "f")
	p := make([]byte, 1000)
	if n, err := f.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, pattern(1000)) {
		t.Error(n, err) // over SMB, in the end
	}
	if st := c.Stats(); st.Lost < 1 || st.Lost > maxLosses+2 {
		t.Errorf("%+v", st)
	}
	waitFor(t, func() bool { return c.Transport().RDMA() }) // else the write goes over SMB
	if n, err := f.WriteAt(p, 0); n != 0 || !base.IsUncertain(err) {
		t.Error(n, err)
	}
	if st := c.Stats(); st.Lost > 2*(maxLosses+2) {
		t.Errorf("%+v", st)
	}
}

// Sync waits for a write that is sent again.
//
// Source: [OP-112], [OP-115]
func TestSyncWaitsForReplay(t *testing.T) { onEach(t, testSyncWaitsForReplay) }

func testSyncWaitsForReplay(t *testing.T, on string) {
	s := cutting(t, on)
	s.echoes = true
	cut, held := s.handle, make(chan func(), 1)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if cut(c, h, body) {
			return true
		}
		if h.Opcode == wire.OpWrite {
			held <- func() { c.answer(h, body) }
		}
		return h.Opcode == wire.OpWrite
	}
	c := s.connect(base.Config{ReconnectTimeout: time.Hour})
	g := openOn(t, c, "g")
	done := make(chan error)
	go func() {
		_, err := g.WriteAt(make([]byte, 10), 77)
		done <- err
	}()
	answer := <-held
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := g.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Sync did not wait: %v", err)
	}
	answer()
	if err := errors.Join(<-done, g.Sync(t.Context())); err != nil {
		t.Error(err)
	}
}

// A sent write of a batch is uncertain if it cannot be replayed because its buffer is busy.
//
// Source: [OP-112], [OP-113]
func TestWriteOfBusyBufferIsNotReplayed(t *testing.T) { onEach(t, testWriteOfBusyBufferIsNotReplayed) }

func testWriteOfBusyBufferIsNotReplayed(t *testing.T, on string) {
	s := cutting(t, on)
	s.echoes = true
	cut, held := s.handle, make(chan func(), 1)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpRead {
			held <- nil
		}
		return cut(c, h, body) || h.Opcode == wire.OpRead
	}
	c := s.connect(base.Config{ReconnectTimeout: time.Hour})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	p := allocate(t, c, 20_000).Bytes()
	b := c.NewBatch(1)
	defer b.Close()
	if err := errors.Join(b.Write(g, p[:5000], 77, 0), b.Submit(t.Context())); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return c.Stats().Reconnects == 1 })
	ctx, _ := untilHeld(t, held)
	if _, err := f.ReadAtContext(ctx, p[10_000:], 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	list, err := b.Wait(t.Context(), 1)
	if err != nil || len(list) != 1 || !errors.Is(list[0].Err, base.ErrUncertain) || !errors.Is(list[0].Err, rdmaconn.ErrBufferBusy) {
		t.Error(list, err)
	}
}

// A buffer is registered on the connection that takes the place of its own, and goes
// on being used by reference as it is; one that is made meanwhile waits for that connection.
//
// Source: [OP-91], [OP-113]
func TestBufferIsRegisteredOnNewConnection(t *testing.T) {
	onEach(t, testBufferIsRegisteredOnNewConnection)
}

func testBufferIsRegisteredOnNewConnection(t *testing.T, on string) {
	s := cutting(t, on)
	c := s.connect(base.Config{ReconnectTimeout: time.Hour})
	f := openOn(t, c, "f")
	b := allocate(t, c, 50_000)
	want := pattern(100_000)
	if n, err := f.ReadAt(b.Bytes(), 77); n != 50_000 || err != nil || !bytes.Equal(b.Bytes(), want[77:][:n]) {
		t.Fatal(n, err)
	}
	<-s.accepted
	if b.Busy() {
		t.Fatal("the buffer is busy")
	}
	reads := (<-s.accepted).seen(wire.OpRead)
	for _, h := range reads {
		if h.DataMh != reads[0].DataMh || h.DataVa < reads[0].DataVa || h.DataVa >= reads[0].DataVa+50_000 {
			t.Errorf("a read went elsewhere: %+v", h)
		}
	}
	c.Live().Fail(errFakePipe)
	if allocate(t, c, 100); c.Live() == nil {
		t.Error("a buffer did not wait for the connection")
	}
	if st := c.Stats(); st.SMB.Reads != 0 || st.Reconnects != 2 {
		t.Errorf("%+v", st)
	}
}

// File.Close waits for a write that is sent again, and for its parts that were not sent before.
//
// Source: [OP-112], [OP-115]
func TestCloseWaitsForReplay(t *testing.T) { onEach(t, testCloseWaitsForReplay) }

func testCloseWaitsForReplay(t *testing.T, on string) {
	share := newFakeShare()
	share.put("g", nil)
	s := newRawServer(t, on, share)
	s.echoes = true
	arrived, closing := make(chan struct{}), make(chan struct{})
	var cut atomic.Bool
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode != wire.OpWrite || cut.Swap(true) {
			return false
		}
		close(arrived)
		<-closing
		c.cut()
		return true
	}
	c := s.connect(base.Config{ReconnectTimeout: time.Minute})
	g := openOn(t, c, "g")
	want := pattern(100_000)
	var calls sync.WaitGroup
	calls.Go(func() {
		if n, err := g.WriteAt(want, 0); n != len(want) || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	})
	<-arrived
	calls.Go(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for !g.closed.Load() {
		time.Sleep(time.Millisecond)
	}
	close(closing)
	calls.Wait()
	if !bytes.Equal(share.files["g"].content(), want) {
		t.Error("wrong bytes at the server")
	}
}

// A part that was never sent does not wait for the next connection while an earlier part is in flight on
// the lost one: the earlier part reserves the next connection.
//
// Source: [OP-112]
func TestUnsentPartWaitsForNoConnection(t *testing.T) { onEach(t, testUnsentPartWaitsForNoConnection) }

func testUnsentPartWaitsForNoConnection(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", nil)
	s := newRawServer(t, on, share)
	s.echoes, s.grant = true, 1
	var cut atomic.Bool
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode != wire.OpWrite || cut.Swap(true) {
			return false
		}
		c.cut()
		return true
	}
	c := s.connect(base.Config{ReconnectTimeout: time.Minute, RequireRDMA: true})
	f := openOn(t, c, "f")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, want := c.newQueue(1), pattern(10_000)
	q.Call = true
	q.push(q.add(f, &arguments{p: want, size: len(want), write: true}, 0))
	if err := q.send(ctx, true); err != nil || q.sent != 1 || q.pending.empty() {
		t.Fatalf("%d requests sent, %v", q.sent, err)
	}
	waitFor(t, func() bool { return c.Paths[0].Live() == nil })
	if cn, err := q.route(ctx, q.pending.first(), c.Paths[0]); cn != nil || !errors.Is(err, errPathDown) {
		t.Errorf("route: %v, %v", cn, err)
	}
	if err := q.wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if d := q.out[0]; d.N != len(want) || d.Err != nil || !bytes.Equal(share.files["f"].content(), want) {
		t.Errorf("%d of %d bytes written, %v", d.N, len(want), d.Err)
	}
}
