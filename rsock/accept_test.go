package rsock

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// dialing is a dial in progress.
type dialing struct {
	done chan struct{}
	c    *Conn
	err  error
}

func startDial(t *testing.T, d *Dialer, address string) *dialing {
	r := &dialing{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.c, r.err = d.DialConn(context.Background(), "tcp", address)
	}()
	t.Cleanup(func() {
		<-r.done
		if r.c != nil {
			r.c.Close()
		}
	})
	return r
}

// TestAdmitDecidesBeforePeerIsAnswered dials while Admit blocks: the peer gets no answer
// before Admit returns. After a refusal the dialer tries TCP, and Admit decides again.
// [WSD §3.2]
func TestAdmitDecidesBeforePeerIsAnswered(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		asked, answer := make(chan *Request), make(chan bool)
		l := listenOn(t, &ListenConfig{Config: with(provider()), Admit: func(r *Request) bool {
			asked <- r
			return <-answer
		}}, "127.0.0.1:0")
		d := &Dialer{Config: with(provider())}

		yes := startDial(t, d, l.Addr().String())
		r := <-asked
		if r.Transport != provider().Name() || r.LocalAddr.String() != l.Addr().String() || !r.RemoteAddr.IP.IsLoopback() || r.RemoteAddr.Port == 0 {
			t.Errorf("request: %+v", r)
		}
		select {
		case <-yes.done:
			t.Error("the dial ended before Admit returned")
		default:
		}
		answer <- true
		for over := false; !over; {
			select {
			case r = <-asked: // again, as the port for the proof was in use
				answer <- true
			case <-yes.done:
				over = true
			}
		}
		if yes.err != nil {
			t.Fatal(yes.err)
		}
		if yes.c.LocalAddr().String() != r.RemoteAddr.String() {
			t.Errorf("the request came from %v, the connection from %v", r.RemoteAddr, yes.c.LocalAddr())
		}
		a, err := l.AcceptConn()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()

		no := startDial(t, d, l.Addr().String())
		<-asked
		answer <- false
		if r := <-asked; r.Transport != TransportTCP {
			t.Errorf("after the refusal came a request by %s", r.Transport)
		}
		answer <- false
		<-no.done
		if no.err != nil { // the reset arrived before the dialer looked
			wantIs(t, no.err, syscall.ECONNRESET)
			return
		}
		wantIs(t, reasonOf(t, no.c, provider().Name()), syscall.ECONNREFUSED)
		_, err = no.c.Read(make([]byte, 1))
		wantIs(t, err, syscall.ECONNRESET)
	})
}

// TestFullBacklogLeadsToTCP fills the backlog with negotiated connections: the next dialer
// connects by TCP.
func TestFullBacklogLeadsToTCP(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider()), Backlog: 2}, "127.0.0.1:0")
		d := &Dialer{Config: with(provider())}
		dial := func() (*Conn, error) {
			c, err := d.DialConn(t.Context(), "tcp", l.Addr().String())
			if c != nil {
				t.Cleanup(func() { c.Close() })
			}
			return c, err
		}
		for n := range 2 {
			if _, err := dial(); err != nil {
				t.Fatal(err)
			}
			for len(l.ready) <= n { // until the listener has negotiated too, and evicts it no more
				time.Sleep(time.Millisecond)
			}
		}
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if c.Transport().RDMA() {
			t.Errorf("transport %v", c.Transport())
		}
		wantIs(t, reasonOf(t, c, provider().Name()), syscall.ECONNREFUSED)
		for range 3 { // AcceptConn takes TCP and RDMA connections in any order
			a, err := l.AcceptConn()
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
		}
		c, err = dial()
		if err != nil {
			t.Fatal(err)
		}
		if !c.Transport().RDMA() {
			t.Errorf("transport %v", c.Transport())
		}
	})
}

// TestCloseWhileDeciding closes the listener while Admit decides: the dialer gets ECONNRESET.
func TestCloseWhileDeciding(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		asked, answer := make(chan *Request), make(chan bool)
		l := listenOn(t, &ListenConfig{Config: with(provider()), Admit: func(r *Request) bool {
			asked <- r
			return <-answer
		}}, "127.0.0.1:0")
		cfg := with(provider())
		cfg.RequireRDMA = true
		r := startDial(t, &Dialer{Config: cfg}, l.Addr().String())
		<-asked
		closed := make(chan error)
		go func() { closed <- l.Close() }()
		for usersOf(l.router) > 1 { // until the RDMA listener takes no more requests
			time.Sleep(time.Millisecond)
		}
		answer <- true
		<-r.done
		wantIs(t, r.err, syscall.ECONNRESET)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// usersOf returns the number of users of the services of a router.
func usersOf(b *router) (n int) {
	b.services.mu.Lock()
	defer b.services.mu.Unlock()
	for _, l := range b.services.byKey {
		n += l.users
	}
	return n
}

// TestCloseResetsUnacceptedConnections closes a listener with RDMA connections that wait for
// AcceptConn.
func TestCloseResetsUnacceptedConnections(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		c, err := (&Dialer{Config: with(provider())}).DialConn(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
	})
}

func TestListenerClosedForRDMA(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		l.Close()
		_, err := (&Dialer{Config: with(provider())}).Dial("tcp", l.Addr().String())
		wantIs(t, err, syscall.ECONNREFUSED) // from TCP, after there was no RDMA listener
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
	})
}

// TestListenerSurvivesHostileRequests sends invalid private data to a listener: the listener
// goes on.
func TestListenerSurvivesHostileRequests(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider()), Backlog: 1, Admit: func(r *Request) bool {
			if r.RemoteAddr.Port == 666 {
				t.Errorf("Admit was called for %+v", r)
			}
			return true
		}}, "127.0.0.1:0")
		own := addrOf(l)
		evil := netip.MustParseAddrPort("127.0.0.1:666")
		if !fabricOf(provider()).inHost() {
			evil = netip.MustParseAddrPort("127.0.0.1:0")
		}
		good := hello{kind: helloRequest, from: evil, to: own, proofPort: 50001, nonce: newNonce()}
		wrong := func(change func(*hello)) []byte {
			h := good
			change(&h)
			return h.appendTo(nil)
		}
		cases := map[string][]byte{
			"nothing":                 nil,
			"one byte":                {'R'},
			"cut":                     good.appendTo(nil)[:helloSize-1],
			"something behind":        append(good.appendTo(nil), 1),
			"an acceptance":           wrong(func(h *hello) { h.kind = helloAccept }),
			"a rejection":             wrong(func(h *hello) { h.kind, h.reason = helloReject, rejectedRefused }),
			"another version":         append([]byte("RSOCK\x01"), good.appendTo(nil)[6:]...),
			"no port for the proof":   wrong(func(h *hello) { h.proofPort = 0 }),
			"another port":            wrong(func(h *hello) { h.to = netip.AddrPortFrom(own.Addr(), own.Port()+1) }),
			"another address":         wrong(func(h *hello) { h.to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), own.Port()) }),
			"address of another host": wrong(func(h *hello) { h.from = netip.MustParseAddrPort("192.0.2.1:666") }),
			"a lot of text":           bytes.Repeat([]byte("RSOCK\x02\x01\x00"), 60),
		}
		for name, private := range cases {
			s, reply, err := raw(t, provider(), own, private)
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
			if _, e := decodeHello(reply, helloReject); e == nil {
				t.Errorf("%s: the rejection has private data", name)
			}
			s.Close()
		}
		c, a := pairOf(t, &Dialer{Config: with(provider())}, l)
		mustBe(t, c, a, provider().Name())
	})
}

// silent sends a valid request to the RDMA listener of l, and nothing after it.
func silent(t *testing.T, p rdma.Provider, l *Listener, proofPort uint16) (*verbs.Socket, error) {
	t.Helper()
	from := "127.0.0.1:0"
	if fabricOf(p).inHost() {
		from = "127.0.0.1:50000"
	}
	call := hello{kind: helloRequest, from: netip.MustParseAddrPort(from), to: addrOf(l), proofPort: proofPort, nonce: newNonce()}
	s, _, err := raw(t, p, addrOf(l), call.appendTo(nil))
	t.Cleanup(func() { s.Close() })
	return s, err
}

// TestSilentDialersLoseTheirPlace fills the backlog with requests that are never negotiated: a
// dial by RDMA takes the place of the oldest of them at once.
func TestSilentDialersLoseTheirPlace(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		const places = 4
		l := listenOn(t, &ListenConfig{Config: with(provider()), Backlog: places}, "127.0.0.1:0")
		for i := range places {
			if _, err := silent(t, provider(), l, firstDynamicPort+uint16(i)); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		c, a := pairOf(t, &Dialer{Config: with(provider())}, l)
		mustBe(t, c, a, provider().Name())
		if took := time.Since(start); took > patience/2 {
			t.Errorf("the dial took %v", took)
		}
	})
}

// TestSilentDialersAreDropped sends a request without a negotiation: the listener gives up
// after HandshakeTimeout.
func TestSilentDialersAreDropped(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		cfg := with(provider())
		cfg.HandshakeTimeout = 100 * time.Millisecond
		l := listenOn(t, &ListenConfig{Config: cfg, Backlog: 1}, "127.0.0.1:0")
		for end := time.Now().Add(patience); ; { // the listener may be too late to accept it
			s, err := silent(t, provider(), l, firstDynamicPort)
			if err != nil && time.Now().After(end) {
				t.Fatal(err)
			}
			if err != nil {
				continue
			}
			for s.Err() == nil { // until the listener gives up
				time.Sleep(time.Millisecond)
			}
			return
		}
	})
}
