package fileio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// The connections of a client go to the addresses that the server lists, in turn.
//
// Source: [OP-39], [OP-40], [OP-109]
func TestConnectionsToSeveralAddresses(t *testing.T) { onEach(t, testSeveralAddresses) }

func testSeveralAddresses(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(1000))
	s, other := newRawServer(t, on, share), newRawServer(t, on, share)
	s.sess.offers[0].Instances = append(s.sess.offers[0].Instances, other.sess.offers[0].Instances...)
	other.sess = s.sess
	s.sess.onKeys = func(client, server [16]byte) {
		for _, s := range []*rawServer{s, other} {
			s.negotiated(client, server)
		}
	}
	c := s.connect(base.Config{Connections: 4})
	if tr := c.Transport(); tr.Connections != 4 || len(s.accepted) != 2 || len(other.accepted) != 2 {
		t.Error(tr, len(s.accepted), len(other.accepted))
	}
	f := openOn(t, c, "f")
	for range 8 {
		if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*rawServer{s, s, other, other} {
		if n := len((<-s.accepted).seen(wire.OpRead)); n != 2 {
			t.Errorf("%d of 8 reads", n)
		}
	}
}

// Sync, Truncate, Unlock and Close wait for a write that is stuck on another connection.
//
// Source: [OP-115]
func TestOrderOverAllConnections(t *testing.T) { onEach(t, testOrderOverAll) }

func testOrderOverAll(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", nil)
	s := newRawServer(t, on, share)
	held := make(chan func(), 1)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpWrite && h.Offset == 77 {
			held <- func() { c.answer(h, body) }
			return true
		}
		return false
	}
	c := s.connect(base.Config{Connections: 2})
	f := openOn(t, c, "f")
	stuck := make(chan error)
	write := func() func() {
		go func() {
			_, err := f.WriteAt(make([]byte, 10), 77)
			stuck <- err
		}()
		return <-held
	}
	for what, call := range map[string]func(ctx context.Context) error{
		"sync":     f.Sync,
		"unlock":   func(ctx context.Context) error { return f.Unlock(ctx, smbshare.Range{Len: 1}) },
		"truncate": func(ctx context.Context) error { return f.Truncate(ctx, 50) },
	} {
		answer := write()
		for range 4 { // the other connection is free
			if _, err := f.WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s did not wait: %v", what, err)
		}
		cancel()
		answer()
		if err := errors.Join(<-stuck, call(t.Context())); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	answer := write()
	closed := make(chan error)
	go func() { closed <- f.Close() }()
	waitFor(t, f.closed.Load)
	select {
	case err := <-closed:
		t.Errorf("Close did not wait: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	answer()
	if err := errors.Join(<-stuck, <-closed); err != nil {
		t.Error(err)
	}
}

// A write of uncertain outcome on one connection may still be going on at the server: a later
// call on another waits for a fence, which leaves that one alone.
//
// Source: [OP-112]
func TestUncertainWriteIsFenced(t *testing.T) { onEach(t, testUncertainIsFenced) }

func testUncertainIsFenced(t *testing.T, on string) {
	s := cutting(t, on)
	c := s.connect(base.Config{Connections: 2})
	g := openOn(t, c, "g")
	if _, err := g.WriteAt(make([]byte, 10), 77); !errors.Is(err, base.ErrUncertain) {
		t.Fatal(err)
	}
	before := s.sess.counted(&s.sess.negotiations)
	for range 2 {
		if _, err := g.WriteAt([]byte("x"), 0); err != nil {
			t.Error(err)
		}
	}
	if n := s.sess.counted(&s.sess.negotiations) - before; n != 1 {
		t.Errorf("%d NEGOTIATEs", n)
	}
	if tr := c.Transport(); tr.Connections != 1 || s.sess.counted(&s.sess.smbWrites) != 0 {
		t.Error(tr)
	}
}

// A write of uncertain outcome is fenced after every kind of call that leaves one behind. A batch with
// operations in flight waits for the fence too.
//
// Source: [OP-112]
func TestUncertainInOtherWaysIsFenced(t *testing.T) { onEach(t, testOtherWays) }

func testOtherWays(t *testing.T, on string) {
	for _, how := range []string{"behind a failure", "batch closed", "batch goes on"} {
		share := newFakeShare()
		share.put("g", pattern(1000))
		s := newRawServer(t, on, share)
		held := make(chan *rawConn, 2)
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			switch {
			case h.Opcode == wire.OpWrite && h.Offset == 77:
				c.reply(h, 0, uint32(ntstatus.DiskFull))
				return true
			case h.Opcode == wire.OpWrite && h.Offset > 77:
				held <- c
				return true
			case h.Opcode == wire.OpRead:
				return true
			}
			return false
		}
		c := s.connect(base.Config{Connections: 2})
		g, b := openOn(t, c, "g"), c.NewBatch(2)
		later := func() error { _, err := g.WriteAt([]byte("x"), 0); return err }
		// uncertain writes, and cuts the connection when the write is all that it waits for.
		uncertain := func(off int64) error {
			done := make(chan error)
			go func() {
				_, err := g.WriteAt(make([]byte, 10_000), off)
				done <- err
			}()
			on := <-held
			if off == 77 {
				waitFor(t, func() bool {
					return c.Paths[0].Live().UnansweredWrites()+c.Paths[1].Live().UnansweredWrites() == 1
				})
			}
			on.cut()
			return <-done
		}
		switch how {
		case "behind a failure":
			if err := uncertain(77); !errors.Is(err, base.ErrUncertain) || !errors.Is(err, ntstatus.DiskFull) {
				t.Error(err)
			}
		case "batch closed":
			if err := errors.Join(b.Write(g, make([]byte, 10), 100, 0), b.Submit(t.Context())); err != nil {
				t.Fatal(err)
			}
			(<-held).cut()
			waitFor(t, func() bool { return c.Transport().Connections == 1 })
			b.Close()
		case "batch goes on":
			if err := errors.Join(b.Read(g, make([]byte, 10), 0, 0), b.Submit(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := uncertain(100); !errors.Is(err, base.ErrUncertain) {
				t.Error(err)
			}
			later = func() error { return errors.Join(b.Write(g, []byte("x"), 0, 0), b.Submit(t.Context())) }
		}
		before := s.sess.counted(&s.sess.negotiations)
		if err := later(); err != nil {
			t.Error(err)
		}
		if n := s.sess.counted(&s.sess.negotiations) - before; n != 1 {
			t.Errorf("%s: %d NEGOTIATEs", how, n)
		}
		b.Close()
	}
}

// A read goes on over a connection that is left, also where RDMA is required and nothing
// is replaced.
//
// Source: [OP-109]
func TestReadGoesOnOverAnother(t *testing.T) { onEach(t, testReadGoesOn) }

func testReadGoesOn(t *testing.T, on string) {
	c := cutting(t, on).connect(base.Config{Connections: 2, RequireRDMA: true})
	if n, err := openOn(t, c, "f").ReadAt(make([]byte, 2000), 77); n != 2000 || err != nil {
		t.Error(n, err)
	}
}

// An operation in parts has the error of its first part that failed, and the bytes before it. If the
// outcome of a later part is unknown, the outcome of the operation is unknown.
//
// Source: [OP-61b], [OP-112]
func TestOperationEndsWithItsFirstFailure(t *testing.T) {
	uncertain := base.Uncertain(rdmaconn.ErrTimeout)
	for name, tc := range map[string]struct {
		done []int // of parts of four bytes
		ends []error
		want int
		err  error
	}{
		"all":              {[]int{4, 4}, []error{nil, nil}, 8, nil},
		"end of file":      {[]int{4, 1, 0}, []error{nil, io.EOF, io.EOF}, 5, io.EOF},
		"behind a failure": {[]int{4, 1, 4}, []error{nil, rdmaconn.ErrTimeout, nil}, 5, rdmaconn.ErrTimeout},
		"uncertain":        {[]int{1, 2}, []error{rdmaconn.ErrTimeout, uncertain}, 1, base.ErrUncertain},
	} {
		for _, backwards := range []bool{false, true} {
			q := (&Client{}).newQueue(1)
			q.Call = true
			q.push(q.add(&File{c: q.c}, &arguments{p: make([]byte, 4*len(tc.ends)), size: 4 * len(tc.ends)}, 0))
			var parts []*operation
			for i := range tc.ends {
				parts = append(parts, q.cut(&q.smb.pending, 4))
				parts[i].done = tc.done[i]
			}
			for i := range parts {
				if backwards {
					i = len(parts) - 1 - i
				}
				q.finish(parts[i], tc.ends[i])
			}
			d := q.out[0]
			if d.N != tc.want || !errors.Is(d.Err, tc.err) || base.IsUncertain(d.Err) != errors.Is(tc.err, base.ErrUncertain) {
				t.Errorf("%s: %d, %v", name, d.N, d.Err)
			}
		}
	}
}

// A batch that sleeps on one connection wakes at the end of another, and the operations
// in flight there go on over the remaining one.
//
// Source: [OP-112], [OP-113]
func TestBatchWakesForEveryConnection(t *testing.T) { onEach(t, testBatchWakesForEveryConnection) }

func testBatchWakesForEveryConnection(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(2*paths.MinStripe))
	s := newRawServer(t, on, share)
	s.window = paths.MinStripe
	var free atomic.Bool
	type request struct {
		conn   *rawConn
		answer func()
	}
	held := make(chan request, 2)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpRead || free.Load() {
			return false
		}
		held <- request{c, func() { c.answer(h, body) }}
		return true
	}
	c := s.connect(base.Config{Connections: 2})
	conns := []*rawConn{<-s.accepted, <-s.accepted}
	f, b := openOn(t, c, "f"), c.NewBatch(2)
	defer b.Close()
	p := make([]byte, 2*paths.MinStripe)
	for i := range 2 {
		if err := b.Read(f, p[i*paths.MinStripe:][:paths.MinStripe], int64(i*paths.MinStripe), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests := []request{<-held, <-held}
	if c.Paths[0].Live().Pending() != 1 || c.Paths[1].Live().Pending() != 1 {
		t.Fatal("the operations are not on two connections")
	}
	done := make(chan error)
	go func() {
		list, err := b.Wait(context.Background(), 1)
		if err == nil && (len(list) != 1 || list[0].N != paths.MinStripe) {
			err = fmt.Errorf("%+v", list)
		}
		done <- err
	}()
	var at *rdmaconn.Place // where it sleeps
	waitFor(t, func() bool { at = b.q.At(); return at != nil })
	free.Store(true)
	cut := 1 - paths.PathOf(at.Conn).Index
	conns[cut].cut()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.conn != conns[cut] {
			r.answer()
		}
	}
	if list, err := b.Wait(t.Context(), 1); err != nil || len(list) != 1 || list[0].Err != nil || !bytes.Equal(p, pattern(2*paths.MinStripe)) {
		t.Error(list, err)
	}
}
