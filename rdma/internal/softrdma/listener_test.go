package softrdma

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/evict"
	"lwio/internal/ratelimit"
	"lwio/rdma"
)

// fakeSocket is a ListenSocket for the connections of a channel, whose requests are there at once.
type fakeSocket struct {
	arrived chan net.Conn
	refused chan net.Conn // receives a connection when its refusal begins
	silent  bool          // connections send no request, until they are closed
}

func newFakeSocket() *fakeSocket {
	return &fakeSocket{arrived: make(chan net.Conn), refused: make(chan net.Conn, 20)}
}

func (s *fakeSocket) Accept() (net.Conn, error) {
	nc, ok := <-s.arrived
	if !ok {
		return nil, net.ErrClosed
	}
	return nc, nil
}
func (s *fakeSocket) Close() error                  { close(s.arrived); return nil }
func (*fakeSocket) Addr() net.Addr                  { return &net.UnixAddr{} }
func (*fakeSocket) Local() rdma.Addr                { return rdma.Addr{Name: "us"} }
func (*fakeSocket) HostOf(nc net.Conn) netip.Prefix { return evict.Host(nc.RemoteAddr()) }
func (s *fakeSocket) ReadRequest(nc net.Conn) (Request, *PeerParams, error) {
	if s.silent {
		_, err := nc.Read(make([]byte, 1))
		return nil, nil, err
	}
	return &waitingRequest{nc: nc, s: s}, &PeerParams{}, nil
}

// waitingRequest is a Request whose refusal waits until the connection is closed.
type waitingRequest struct {
	Request
	nc net.Conn
	s  *fakeSocket
}

func (r *waitingRequest) Refuse([]byte) {
	r.s.refused <- r.nc
	_, _ = io.Copy(io.Discard, r.nc)
}

// listenNetwork is a Network with one socket to listen at.
type listenNetwork struct {
	*fakeNetwork
	socket *fakeSocket
}

func (n *listenNetwork) Listen(context.Context, string, rdma.Addr) (ListenSocket, error) {
	return n.socket, nil
}

// A refusal that waits for its peer holds up neither other connections nor Close. It counts as a
// start-up: too many of them end the oldest one.
//
// Source: [RFC 5042 §6.4]
func TestRefusalDelaysNoOtherConnection(t *testing.T) {
	s := newFakeSocket()
	rl, err := NewDomain("soft").CreateListener(&listenNetwork{newFakeNetwork(), s}, Limits{
		Startups: 2, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rl.Bind(t.Context(), rdma.Addr{}); err != nil {
		t.Fatal(err)
	}
	if err := rl.Listen(0); err != nil { // with a backlog of none
		t.Fatal(err)
	}
	var peers []net.Conn
	for i := range 3 {
		here, there := net.Pipe()
		peers = append(peers, there)
		defer there.Close()
		s.arrived <- here
		select {
		case nc := <-s.refused:
			if nc != here {
				t.Fatal("another connection is refused")
			}
		case <-time.After(testTimeout):
			for _, p := range peers {
				p.Close()
			}
			rl.Close()
			t.Fatalf("connection %d waits for the refusal of another one", i)
		}
	}
	wantClosed := func(i int) {
		t.Helper()
		_ = peers[i].SetReadDeadline(time.Now().Add(testTimeout))
		if _, err := peers[i].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("connection %d is not closed: %v", i, err)
		}
	}
	wantClosed(0)
	rl.Close()
	wantClosed(1)
	wantClosed(2)
}

// addrConn is a net.Conn from an address.
type addrConn struct {
	net.Conn
	from net.Addr
}

func (c *addrConn) RemoteAddr() net.Addr { return c.from }

// A full queue refuses no new request: the oldest request of the host that has the most is refused.
// The others get their connectors in the order of arrival.
//
// Source: [RFC 5042 §6.4]
func TestFullQueueRefusesOldestRequestOfBusiestHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		n := &listenNetwork{newFakeNetwork(), s}
		rl, err := NewDomain("soft").CreateListener(n, Limits{Backlog: 3, Startups: 10, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = errors.Join(rl.Bind(t.Context(), rdma.Addr{}), rl.Listen(0))
		}
		if err != nil {
			t.Fatal(err)
		}
		conns := make([]net.Conn, 5)
		for i, last := range []byte{1, 2, 2, 1, 1} { // hosts
			here, there := net.Pipe()
			defer there.Close()
			conns[i] = &addrConn{here, &net.TCPAddr{IP: net.IPv4(10, 0, 0, last)}}
			s.arrived <- conns[i]
			synctest.Wait()
		}
		// Of {1 2 2}, 1 the first of host 1; then of {2 2 1}, 1 the first of host 2.
		for _, want := range []int{0, 1} {
			if got := <-s.refused; got != conns[want] {
				t.Errorf("another connection than number %d is refused", want)
			}
		}
		l := rl.(*Listener)
		for _, want := range []int{2, 3, 4} {
			<-l.queued
			if r := l.takeRequest(); r == nil || r.nc != conns[want] {
				t.Errorf("%+v, want number %d", r, want)
			}
		}
		if len(s.refused) != 0 || len(l.queued) != 0 {
			t.Errorf("%d more refusals, %d waiting", len(s.refused), len(l.queued))
		}
		rl.Close()
	})
}

// A flood from unknown hosts drops no request and no start-up of a known host, and its requests get their
// connectors first.
//
// Source: [RFC 5042 §6.4]
func TestFloodDropsNothingOfKnownHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, silent := range []bool{false, true} {
			s := newFakeSocket()
			s.silent = silent
			n := &listenNetwork{newFakeNetwork(), s}
			limits := Limits{Backlog: 4, Startups: 100, Logger: slog.New(slog.DiscardHandler)}
			if silent {
				limits.Startups = 4
			}
			rl, err := NewDomain("soft").CreateListener(n, limits)
			if err == nil {
				err = errors.Join(rl.Bind(t.Context(), rdma.Addr{}), rl.Listen(0))
			}
			if err != nil {
				t.Fatal(err)
			}
			rl.(rdma.KnownPeersListener).SetKnownPeers(func(host netip.Addr) string {
				if host == netip.AddrFrom4([4]byte{10, 0, 0, 1}) {
					return "alice"
				}
				return ""
			})
			var conns [20]net.Conn
			for i := range conns {
				here, there := net.Pipe()
				defer there.Close()
				last := byte(i)
				if i == 1 || i >= 18 {
					last = 1
				}
				conns[i] = &addrConn{here, &net.TCPAddr{IP: net.IPv4(10, 0, 0, last)}}
				s.arrived <- conns[i]
				synctest.Wait()
			}
			l := rl.(*Listener)
			l.mu.Lock()
			starting := slices.Collect(l.starting.All())
			l.mu.Unlock()
			switch {
			case !silent:
				for _, want := range []int{1, 18, 17, 19} {
					<-l.queued
					if r := l.takeRequest(); r == nil || r.nc != conns[want] {
						t.Errorf("%+v, want number %d", r, want)
					}
				}
			case !slices.Equal(starting, []net.Conn{conns[1], conns[17], conns[18], conns[19]}):
				t.Errorf("other start-ups than those of the known host and the last of the others are left")
			}
			rl.Close()
		}
	})
}

// stuckConn is a connection whose close waits until it is released.
type stuckConn struct {
	net.Conn
	closing  chan struct{} // closed by the first Close
	once     sync.Once
	released chan struct{}
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closing) })
	<-c.released
	return c.Conn.Close()
}

// A close that waits for its peer holds up neither calls of the listener nor other connections.
// Connections that are being closed are bounded.
func TestCloseOfConnectionDelaysNoOther(t *testing.T) {
	s := newFakeSocket()
	rl, err := NewDomain("soft").CreateListener(&listenNetwork{newFakeNetwork(), s}, Limits{
		Startups: 1, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = errors.Join(rl.Bind(t.Context(), rdma.Addr{}), rl.Listen(0)) // with a backlog of none
	}
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	arrive := func() *stuckConn {
		here, there := net.Pipe()
		t.Cleanup(func() { there.Close() })
		return &stuckConn{Conn: here, closing: make(chan struct{}), released: released}
	}
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(testTimeout):
			close(released)
			t.Fatalf("%s does not happen", what)
		}
	}
	first, second := arrive(), arrive()
	s.arrived <- first
	<-s.refused
	s.arrived <- second
	wait("the close of the first connection", first.closing)
	called := make(chan struct{})
	go func() { defer close(called); _, _ = rl.LocalAddr() }()
	wait("a call during a close", called)
	refused := make(chan struct{})
	go func() { defer close(refused); <-s.refused }()
	wait("the refusal of the second connection", refused)
	select {
	case s.arrived <- arrive():
		t.Error("a connection was taken while all places are in use")
	case <-time.After(50 * time.Millisecond):
	}
	close(released)
	rl.Close()
}

// brokenSocket is a fakeSocket whose connections send no request.
type brokenSocket struct{ *fakeSocket }

func (brokenSocket) ReadRequest(nc net.Conn) (Request, *PeerParams, error) {
	return nil, nil, errors.New("no request")
}

type brokenNetwork struct {
	*fakeNetwork
	socket brokenSocket
}

func (n *brokenNetwork) Listen(context.Context, string, rdma.Addr) (ListenSocket, error) {
	return n.socket, nil
}

// Start-ups that fail write one line a second, with the number of the lines left out.
func TestFailedStartupsAreLoggedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := brokenSocket{newFakeSocket()}
		rl, err := NewDomain("soft").CreateListener(&brokenNetwork{newFakeNetwork(), s}, Limits{
			Startups: 2, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err == nil {
			err = errors.Join(rl.Bind(t.Context(), rdma.Addr{}), rl.Listen(0))
		}
		if err != nil {
			t.Fatal(err)
		}
		fail := func(n int) {
			for range n {
				here, there := net.Pipe()
				s.arrived <- here
				_, _ = there.Read(make([]byte, 1)) // until the listener has closed it
			}
			synctest.Wait()
		}
		fail(1000)
		time.Sleep(ratelimit.LogInterval)
		fail(1)
		rl.Close()
		if text := log.String(); strings.Count(text, "start-up failed") != 2 || !strings.Contains(text, "suppressed=999") {
			t.Errorf("logged:\n%s", text)
		}
	})
}
