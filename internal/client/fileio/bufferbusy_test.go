package fileio

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// heldTeardowns is a provider whose connections are not torn down before a release: the teardown
// begins with the close of the connector, which waits. Conn.Hold is not for that: a call of the same
// goroutine holds the connection too.
type heldTeardowns struct {
	rdma.Provider
	released <-chan struct{}
}

// holdTeardowns returns the providers of a client, and the release, which must come before the end
// of the client.
func holdTeardowns() (list []rdma.Provider, release func()) {
	released := make(chan struct{})
	for _, p := range defaults() {
		list = append(list, heldTeardowns{p, released})
	}
	return list, sync.OnceFunc(func() { close(released) })
}

func (p heldTeardowns) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return heldAdapter{a, p.released}, err
}

type heldAdapter struct {
	rdma.Adapter
	released <-chan struct{}
}

func (a heldAdapter) CreateConnector() (rdma.Connector, error) {
	c, err := a.Adapter.CreateConnector()
	return heldConnector{c, a.released}, err
}

type heldConnector struct {
	rdma.Connector
	released <-chan struct{}
}

func (c heldConnector) Close() error {
	<-c.released
	return c.Connector.Close()
}

// As long as a broken connection is not torn down its buffers are the server's: a read
// does not go on over SMB into one, and Busy reports true.
//
// Source: [OP-94f], [OP-113]
func TestBufferOfBrokenConnection(t *testing.T) { onEach(t, testBufferOfBrokenConnection) }

func testBufferOfBrokenConnection(t *testing.T, on string) {
	for _, require := range []bool{false, true} {
		share := newFakeShare()
		want := pattern(100_000)
		share.put("f", want)
		s := newRawServer(t, on, share)
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			if h.Opcode == wire.OpRead {
				c.send([]byte("nonsense")) // the client ends the connection
			}
			return h.Opcode == wire.OpRead
		}
		providers, release := holdTeardowns()
		defer release()
		c := s.connect(base.Config{RequireRDMA: require, Providers: providers})
		f := openOn(t, c, "f")
		b := allocate(t, c, 50_000)
		cn := c.Live()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-cn.Down()
			cancel()
		}()
		_, err := f.ReadAtContext(ctx, b.Bytes(), 0)
		if !b.Busy() || err == nil || errors.Is(err, context.Canceled) == require || s.sess.counted(&s.sess.smbReads) != 0 {
			t.Errorf("required %v: busy %v, %v", require, b.Busy(), err)
		}
		release()
		<-cn.Gone()
		c.Maintainers.Wait() // and no goroutine looks at that
		c.Cfg.RequireRDMA = false
		if n, err := f.ReadAt(b.Bytes(), 0); err != nil || !bytes.Equal(b.Bytes()[:n], want[:50_000]) || b.Busy() {
			t.Errorf("required %v: %d, %v", require, n, err)
		}
	}
}

// No read or write goes on over another connection with a buffer of the broken one.
//
// Source: [OP-109], [OP-113]
func TestBufferOfBrokenConnectionElsewhere(t *testing.T) { onEach(t, testBufferElsewhere) }

func testBufferElsewhere(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(100_000)
	share.put("f", want)
	s := newRawServer(t, on, share)
	var others atomic.Int64
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		switch {
		case h.Opcode == wire.OpRead && h.Offset == 77:
			c.send([]byte("nonsense")) // the client ends the connection
			return true
		case h.Opcode.IO():
			others.Add(1)
		}
		return false
	}
	providers, release := holdTeardowns()
	defer release()
	c := s.connect(base.Config{Connections: 2, Providers: providers})
	f, b := openOn(t, c, "f"), allocate(t, c, 50_000)
	conns := []*rdmaconn.Conn{c.Paths[0].Live(), c.Paths[1].Live()}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		select {
		case <-conns[0].Down():
		case <-conns[1].Down():
		}
		cancel()
	}()
	if _, err := f.ReadAtContext(ctx, b.Bytes(), 77); !errors.Is(err, context.Canceled) || !b.Busy() {
		t.Errorf("%v, busy %v", err, b.Busy())
	}
	ways := map[string]func(ctx context.Context) error{
		"ReadAt":   func(ctx context.Context) error { _, err := f.ReadAtContext(ctx, b.Bytes(), 0); return err },
		"WriteAt":  func(ctx context.Context) error { _, err := f.WriteAtContext(ctx, b.Bytes()[:9000], 0); return err },
		"ReadVec":  func(ctx context.Context) error { _, err := f.ReadVec(ctx, cut(b.Bytes(), 8192), 0); return err },
		"WriteVec": func(ctx context.Context) error { _, err := f.WriteVec(ctx, cut(b.Bytes(), 10_000), 0); return err },
		"Batch": func(ctx context.Context) error {
			batch := c.NewBatch(1)
			err := batch.Read(f, b.Bytes(), 0, 1)
			if err == nil {
				var list []Completion
				if list, err = batch.Wait(ctx, 1); len(list) == 1 {
					err = list[0].Err
				}
			}
			return errors.Join(err, batch.Close())
		},
	}
	for name, do := range ways {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) || others.Load() != 0 {
			t.Errorf("%s does not wait: %v", name, err)
		}
		cancel()
	}
	release()
	for name, do := range ways {
		if err := do(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b.Busy() {
		t.Error("the buffer is busy in the end")
	}
}

// untilHeld is a context that ends once a server holds a request, and the channel that
// has the request then.
func untilHeld(t *testing.T, held <-chan func()) (context.Context, <-chan func()) {
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan func(), 1)
	go func() {
		defer cancel()
		select {
		case a := <-held:
			answer <- a
		case <-t.Context().Done():
		}
	}()
	return ctx, answer
}

// A write from a buffer that is given up leaves it busy until the server has
// answered, unless the data was copied: it may not have been sent yet.
//
// Source: [LWIO §Write], [OP-113]
func TestBufferOfWriteGivenUp(t *testing.T) { onEach(t, testBufferOfWriteGivenUp) }

func testBufferOfWriteGivenUp(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", nil)
	s := newRawServer(t, on, share)
	s.mu.Lock()
	s.recvSize = 64 << 10
	s.mu.Unlock()
	held := make(chan func(), 1)
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode.IO() {
			held <- func() { c.answer(h, body) }
		}
		return h.Opcode.IO()
	}
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	b := allocate(t, c, 50_000)
	for name, write := range map[string]func(ctx context.Context, p []byte) error{
		"WriteAt": func(ctx context.Context, p []byte) error {
			_, err := f.WriteAtContext(ctx, p, 0)
			return err
		},
		"WriteVec": func(ctx context.Context, p []byte) error {
			_, err := f.WriteVec(ctx, cut(p, 10_000), 0)
			return err
		},
		"Batch": func(ctx context.Context, p []byte) error {
			batch := c.NewBatch(1)
			err := batch.Write(f, p, 0, 1)
			if err == nil {
				_, err = batch.Wait(ctx, 1)
			}
			return errors.Join(err, batch.Close())
		},
	} {
		for _, n := range []int{rdmaconn.CopyBuffer, rdmaconn.CopyBuffer + 1, 50_000} {
			ctx, answer := untilHeld(t, held)
			err := write(ctx, b.Bytes()[:n])
			gathered := n > rdmaconn.CopyBuffer || name == "WriteVec"
			if !errors.Is(err, context.Canceled) || b.Busy() != gathered {
				t.Errorf("%s of %d bytes: %v, busy %v", name, n, err, b.Busy())
			}
			if gathered {
				if _, err := f.WriteAt(b.Bytes()[:10], 0); !errors.Is(err, rdmaconn.ErrBufferBusy) {
					t.Errorf("%s of %d bytes: then %v", name, n, err)
				}
			}
			(<-answer)()
			waitFor(t, func() bool { return !b.Busy() && freeCredits(c.Live()) == int(s.grant) })
		}
	}
}

// A buffer that is busy on the connection is refused also by a file that goes over
// SMB.
//
// Source: [OP-56], [OP-113]
func TestBusyBufferIsRefusedOverSMB(t *testing.T) { onEach(t, testBusyBufferIsRefusedOverSMB) }

func testBusyBufferIsRefusedOverSMB(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	share.put("g", pattern(100_000))
	s := newRawServer(t, on, share)
	held := make(chan func(), 1)
	registered := 0
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		switch h.Opcode {
		case wire.OpRead:
			held <- func() { c.answer(h, body) }
			return true
		case wire.OpRegister:
			if registered++; registered == 2 {
				c.status(h.Cookie, 0, uint32(ntstatus.AccessDenied))
				return true
			}
		}
		return false
	}
	c := s.connect(base.Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	b := allocate(t, c, 10_000)
	ctx, answer := untilHeld(t, held)
	if _, err := f.ReadAtContext(ctx, b.Bytes(), 0); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, read := g.ReadAt(b.Bytes(), 0)
	_, write := g.WriteAt(b.Bytes(), 0)
	if !errors.Is(read, rdmaconn.ErrBufferBusy) || !errors.Is(write, rdmaconn.ErrBufferBusy) {
		t.Errorf("%v, %v", read, write)
	}
	(<-answer)()
	waitFor(t, func() bool { return !b.Busy() })
	if _, err := g.ReadAt(b.Bytes(), 0); err != nil || g.Transport().RDMA() {
		t.Error(err)
	}
}
