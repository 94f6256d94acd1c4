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

// jam is a connection whose writes block once it is shut, until it is closed or a
// deadline is set.
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

// TestCloseWithRequestsInFlight closes a socket with pending requests, RDMA included:
// receives end with a reset, and all other requests are aborted. Each is notified once,
// after the memory is deregistered.
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
	desc := b.expose(make([]byte, 1<<20), MemReadWrite)
	shut.Store(true)

	var notified [5]int
	var open [5]int64
	over := make([]Overlapped, len(notified))
	for i := range over {
		over[i].Complete = func(*Overlapped) { notified[i]++; open[i] = watch.open.Load() }
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
		if notified[i] != 1 || open[i] != 0 {
			t.Errorf("request %d: notified %d times, with %d regions open", i, notified[i], open[i])
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

// TestPeerCloseResetsRequests closes the peer: pending and later requests end with a reset.
//
// Source: [WSD §7]
func TestPeerCloseResetsRequests(t *testing.T) {
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

// TestDisconnectDeliversSentMessages receives the messages that were sent before a
// disconnect.
//
// Source: [WSD §7]
func TestDisconnectDeliversSentMessages(t *testing.T) {
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

// TestCloseWhileConnecting closes a socket during Connect and Wait: both calls return.
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
			t.Log("reject of a closed connect:", err)
		}
	})
}

// TestCleanupClosesSocketsAndListeners uses a service and its objects after Cleanup.
func TestCleanupClosesSocketsAndListeners(t *testing.T) {
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
