package verbs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/rdma/iwarp"
)

// jam is a connection whose writes block once it is shut, until it is closed or
// somebody sets a limit to that.
type jam struct {
	net.Conn
	shut  *atomic.Bool
	ended chan struct{}
	once  sync.Once
}

func (j *jam) Write(b []byte) (int, error) {
	if j.shut.Load() {
		<-j.ended
		return 0, os.ErrDeadlineExceeded
	}
	return j.Conn.Write(b)
}

func (j *jam) end() { j.once.Do(func() { close(j.ended) }) }

func (j *jam) Close() error {
	j.end()
	return j.Conn.Close()
}

func (j *jam) limit(t time.Time) {
	if j.shut.Load() && !t.IsZero() {
		j.end()
	}
}

func (j *jam) SetDeadline(t time.Time) error {
	j.limit(t)
	return j.Conn.SetDeadline(t)
}

func (j *jam) SetWriteDeadline(t time.Time) error {
	j.limit(t)
	return j.Conn.SetWriteDeadline(t)
}

// Close ends everything that is pending, RDMA in flight too: receives are reset, the
// rest is aborted, each is notified once, and the memory is free then.
//
// Source: [WSD §7]
func TestCloseWithRequestsInFlight(t *testing.T) {
	var shut atomic.Bool
	f := fabrics[1]
	p := iwarp.New(&iwarp.Config{Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", remote.String())
		if err != nil {
			return nil, err
		}
		return &jam{Conn: c, shut: &shut, ended: make(chan struct{})}, nil
	}})
	watch := &spy{Provider: p}
	a, b := pairOn(t, f, service(t, watch, nil), service(t, f.make(), nil), 1<<20)
	desc := b.lend(make([]byte, 1<<20), MemReadWrite)
	shut.Store(true)

	var told [5]int
	var open [5]int64
	over := make([]Overlapped, len(told))
	for i := range over {
		over[i].Complete = func(*Overlapped) { told[i]++; open[i] = watch.open.Load() }
	}
	if err := errors.Join(
		a.Recv(&over[0], a.part(0, 8), 0),
		a.RdmaWrite(&over[1], a.part(0, 1<<20), desc, 0, 0),
		a.RdmaRead(&over[2], a.part(0, 1<<20), desc, 0, 0),
		a.Send(&over[3], a.part(0, 8), 0),
		a.Send(&over[4], a.part(0, 8), Defer),
	); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for i := range over {
		want := OperationAborted
		if i == 0 {
			want = ECONNRESET
		}
		_, err := a.GetResult(&over[i])
		fails(t, "pending request", err, want)
		if told[i] != 1 || open[i] != 0 {
			t.Errorf("request %d: told %d times, with %d regions open", i, told[i], open[i])
		}
	}
	if a.Close() != nil {
		t.Error("second close")
	}
	<-b.connector().Done()
	var o Overlapped
	fails(t, "send", a.Send(&o, nil, 0), ENOTSOCK)
	fails(t, "receive", a.Recv(&o, nil, 0), ENOTSOCK)
	_, err := a.Poll()
	fails(t, "poll", err, ENOTSOCK)
	fails(t, "wait", a.Wait(t.Context()), ENOTSOCK)
	_, err = a.RegisterMemory(t.Context(), make([]byte, 8), MemRead)
	fails(t, "register", err, ENOTSOCK)
	_, err = a.Connect(t.Context(), f.listen, nil)
	fails(t, "connect", err, EISCONN)
}

// The end that the peer makes shows on this side as the peer's close.
//
// Source: [WSD §7]
func TestPeerCloses(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 4096)
		var recv, o Overlapped
		if err := a.Recv(&recv, a.part(0, 8), 0); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		_, err := a.wait(&recv)
		fails(t, "pending receive", err, ECONNRESET)
		<-a.connector().Done()
		fails(t, "send", a.Send(&o, nil, 0), ECONNRESET)
		fails(t, "disconnect", a.Disconnect(t.Context()), ENOTCONN)
		if _, err := a.Poll(); err != nil {
			t.Errorf("poll: %v", err)
		}
	})
}

// What was sent before a disconnect arrives.
//
// Source: [WSD §7]
func TestDisconnect(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 4096)
		var recv, last, send Overlapped
		if err := errors.Join(b.Recv(&recv, b.part(0, 8), Defer), b.Recv(&last, b.part(8, 8), 0)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Send(&send, a.part(0, 8), 0), a.Disconnect(t.Context())); err != nil {
			t.Fatal(err)
		}
		b.ok("receive", &recv, nil)
		_, err := b.wait(&last)
		fails(t, "receive after that", err, ECONNRESET)
	})
}

// A close aborts a connect at work, and ends who waits.
//
// Source: [WSD §7]
func TestCloseWhileConnecting(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		v := service(t, f.make(), nil)
		l, addr := listen(t, f, v)
		defer l.Close()
		s, err := v.Socket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := newEnd(t, s, 8)
		done, waited := make(chan error, 1), make(chan struct{})
		go func() { _, err := s.Connect(t.Context(), addr, nil); done <- err }()
		go func() { _ = s.Wait(t.Context()); close(waited) }()
		in, err := l.Accept(t.Context()) // and does not answer
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil {
			t.Error("connects although the socket was closed")
		}
		<-waited
		_, err = e.GetResult(&e.hole)
		fails(t, "pending receive", err, ECONNRESET)
		if err := in.Reject(nil); err != nil {
			t.Log("reject to who has gone:", err)
		}
	})
}

// Cleanup ends sockets and listeners.
func TestCleanup(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 64)
		v := a.Service()
		l, err := v.Listen(t.Context(), f.listen, 0)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() { _, err := l.Accept(t.Context()); accepted <- err }()
		if err := errors.Join(v.Cleanup(), v.Cleanup()); err != nil {
			t.Error(err)
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		<-b.connector().Done()
		if _, err := v.Socket(t.Context()); err == nil {
			t.Error("a socket of a closed service")
		}
		if _, err := v.Listen(t.Context(), f.listen, 0); err == nil {
			t.Error("a listener of a closed service")
		}
		if f.name == "iwarp" {
			_, err = StartupEx(t.Context(), f.make(), netip.MustParseAddr("192.0.2.1"), nil)
			fails(t, "foreign address", err, EADDRNOTAVAIL)
		}
	})
}
