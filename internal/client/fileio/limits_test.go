package fileio

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest/fault"
)

// lateConn is a connection whose writes, once it is slow, return only when they get
// a token, though their bytes are on their way at once.
type lateConn struct {
	net.Conn
	slow   *atomic.Bool
	tokens chan struct{}
}

func (c *lateConn) Write(p []byte) (int, error) {
	slow := c.slow.Load()
	n, err := c.Conn.Write(p)
	if slow {
		<-c.tokens
	}
	return n, err
}

// signalEvery is the number of sends of a connection that share one completion.
const signalEvery = 32

// sendCounter counts the sends that a provider has taken since the last with a completion.
type sendCounter struct{ sends atomic.Int64 }

// Event implements fault.Tracer.
func (c *sendCounter) Event(e fault.Event) {
	if p, ok := e.(fault.Posted); ok && p.Op == rdma.OpSend {
		if p.Flags&rdma.FlagSilentSuccess != 0 {
			c.sends.Add(1)
		} else {
			c.sends.Store(0)
		}
	}
}

// is reports whether the provider has taken n sends since the last with a completion.
func (c *sendCounter) is(n int64) bool { return c.sends.Load() == n }

// A credit may come back before the provider is done with the send that took it;
// the queue has room for the next one all the same.
//
// Source: [OP-65], [OP-66]
func TestAnswersBeforeSendsAreDone(t *testing.T) {
	share := newFakeShare()
	share.put("f", pattern(1000))
	s := newRawServer(t, "iwarp", share)
	var slow atomic.Bool
	tokens := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(tokens) })
	posted := new(sendCounter)
	provider := fault.Wrap(iwarp.New(&iwarp.Config{Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", remote.String())
		return &lateConn{nc, &slow, tokens}, err
	}}), &fault.Config{Tracer: posted})
	const credits = 8
	c := s.connect(base.Config{Credits: credits, Providers: []rdma.Provider{provider}, RequireRDMA: true})
	t.Cleanup(letGo) // or the pending writes hold up the end
	f := openOn(t, c, "f")
	cn := c.Live()
	var readers sync.WaitGroup
	read := func(n int) {
		for range n {
			readers.Go(func() {
				if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
	free := func(n int) {
		t.Helper()
		waitFor(t, func() bool { return freeCredits(cn) == n })
	}
	read(1)
	readers.Wait()
	for !posted.is(signalEvery - 2) {
		read(1)
		readers.Wait()
	}
	slow.Store(true)
	read(1) // the last that makes no result, on its way alone
	waitFor(t, func() bool { return posted.is(signalEvery-1) && freeCredits(cn) == credits })
	read(credits) // wait for it
	waitFor(t, func() bool { return posted.is(credits - 1) })
	tokens <- struct{}{}
	free(credits) // all answered, and not done
	read(credits)
	free(0)
	letGo()
	readers.Wait()
	if !c.Transport().RDMA() {
		t.Errorf("transport %v", c.Transport())
	}
}

// hurried opens a file, for calls that have so little time, and makes it known to the
// server. Where the machine is busy that takes several attempts.
func (s *rawServer) hurried(timeout time.Duration, name string) *File {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		c, err := s.dial(&base.Config{Timeout: timeout, RequireRDMA: true})
		if err == nil {
			var f *File
			if f, err = c.OpenFile(s.t.Context(), name, os.O_RDWR, 0); err == nil {
				_, _, err = f.pathFor(s.t.Context(), f.c.Paths[0], access{})
			}
			if err == nil {
				return f
			}
		}
		if time.Now().After(end) {
			s.t.Fatal(err)
		}
	}
}

// Without a deadline, Config.Timeout bounds the wait for a credit as well.
//
// Source: [OP-113]
func TestNoCreditInTime(t *testing.T) { onEach(t, testNoCreditInTime) }

func testNoCreditInTime(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(1000))
	s := newRawServer(t, on, share)
	s.grant = 1
	held := make(chan struct{}, 1)
	s.handle = func(_ *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode == wire.OpRead {
			held <- struct{}{}
		}
		return h.Opcode == wire.OpRead
	}
	f := s.hurried(time.Second, "f")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of its own, so that no call misses the answer
	var first sync.WaitGroup
	first.Go(func() { _, _ = f.ReadAtContext(ctx, make([]byte, 10), 0) })
	<-held
	_, err := f.ReadAt(make([]byte, 10), 0)
	if !errors.Is(err, rdmaconn.ErrNoCredit) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	cancel()
	first.Wait()
}

// A deadline of the caller's own is the only one, also if it is later than
// Config.Timeout, and a call that outlasts Config.Timeout does not end the connection.
//
// Source: [OP-110], [OP-113]
func TestOwnDeadlineRules(t *testing.T) { onEach(t, testOwnDeadlineRules) }

func testOwnDeadlineRules(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(1000))
	s := newRawServer(t, on, share)
	var live atomic.Pointer[rdmaconn.Conn]
	var reads atomic.Int32
	s.handle = func(_ *rawConn, h wire.Header, _ []byte) bool {
		if cn := live.Load(); h.Opcode == wire.OpRead {
			first := reads.Add(1) == 1
			for n := 0; !cn.IsDown() && t.Context().Err() == nil && !(first && n == 3*rdmaconn.WatchParts); n++ {
				cn.Watch()
				time.Sleep(time.Millisecond)
			}
		}
		return false
	}
	c := s.connect(base.Config{Timeout: time.Hour, RequireRDMA: true})
	cn := c.Live()
	live.Store(cn)
	f := openOn(t, c, "f")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	if n, err := f.ReadAtContext(ctx, make([]byte, 10), 0); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	// A call that is given up is watched again.
	brief := dueWhen(t, func() bool { return reads.Load() == 2 })
	if _, err := f.ReadAtContext(brief, make([]byte, 10), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	waitFor(t, cn.IsDown)
}
