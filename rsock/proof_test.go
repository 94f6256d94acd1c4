package rsock

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock/internal/verbs"
)

// imposter is a program at the RDMA address of a TCP port that another program owns. It
// speaks the whole protocol but the proof, and counts the bytes that dialers send it.
type imposter struct {
	router *router
	got    atomic.Int64
	came   atomic.Int64
}

// handle accepts a request as an RDMA listener does, and reads.
func (i *imposter) handle(t *testing.T, in *verbs.Incoming) {
	call, err := decodeHello(in.PrivateData(), helloRequest)
	if err != nil {
		t.Errorf("the request has no hello: %v", err)
		in.Reject(nil)
		return
	}
	i.came.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := i.router.newStream(ctx, in.Socket())
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Abort()
	yes := hello{kind: helloAccept, from: call.to, to: call.from}
	if _, err := in.Accept(ctx, yes.appendTo(nil)); err != nil {
		return
	}
	if s.Start(ctx, false) == nil {
		i.got.Add(1)
		n, _ := s.Read(make([]byte, 1<<10))
		i.got.Add(int64(n))
	}
}

// TestImposterAtRDMAAddressGetsNothing dials a TCP service while another program listens at its
// RDMA address with the right hello: the connection goes to the service, by TCP.
func TestImposterAtRDMAAddressGetsNothing(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		services := map[string]func(c net.Conn){
			"that waits for the client": func(c net.Conn) { _, _ = io.Copy(c, c) },
			"that speaks first": func(c net.Conn) {
				_, _ = c.Write([]byte("220 a service that speaks first, with more bytes than an answer has\r\n"))
				_, _ = io.Copy(c, c)
			},
			"that closes": func(net.Conn) {},
		}
		for name, serve := range services {
			t.Run("service "+name, func(t *testing.T) {
				nl := listenTCP(t, "tcp", "127.0.0.1:0")
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						c, err := nl.Accept()
						if err != nil {
							return
						}
						go func() { defer c.Close(); serve(c) }()
					}
				}()
				t.Cleanup(func() { nl.Close(); <-done })
				evil := &imposter{router: newRouter(with(provider()))}
				foreignListener(t, provider(), addrOf(nl), func(in *verbs.Incoming) { evil.handle(t, in) })
				d := &Dialer{Config: with(provider())}
				if strings.Contains(name, "waits") { // it never answers, and the dial takes so long
					d.Config.HandshakeTimeout = 4 * time.Second
				}
				c, err := d.DialConn(t.Context(), "tcp", nl.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if c.Transport().RDMA() {
					t.Errorf("transport %v", c.Transport())
				}
				wantIs(t, reasonOf(t, c, provider().Name()), ErrUnproven)
				if _, err := io.WriteString(c, "Authorization: secret"); err != nil {
					t.Error(err)
				}
				came := evil.came.Load() // more than one if a port for the proof was in use
				if came == 0 {
					t.Error("the imposter saw no request")
				}
				// It is not asked again for RetryInterval.
				again, err := d.DialConn(t.Context(), "tcp", nl.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer again.Close()
				wantIs(t, reasonOf(t, again, provider().Name()), ErrUnresponsive)
				if got, more := evil.got.Load(), evil.came.Load()-came; got != 0 || more != 0 {
					t.Errorf("the imposter got %d bytes and negotiations, and %d more requests", got, more)
				}
			})
		}
	})
}

// TestProofNamesTheRDMAListener has an imposter at the iWARP address pass each request on to the
// true listener over shared memory: the proof is for another RDMA listener, and the dialer
// refuses it.
func TestProofNamesTheRDMAListener(t *testing.T) {
	if _, err := shm.New(nil).OpenAdapter(t.Context(), netip.Addr{}); err != nil {
		skip.Test(t, "shared memory is for Linux")
	}
	var l *Listener
	for l == nil {
		free := listenTCP(t, "tcp", "127.0.0.1:0")
		free.Close()
		l, _ = Listen("tcp", free.Addr().String(), with(shm.New(nil)))
	}
	t.Cleanup(func() { l.Close() })
	relayed := make(chan error, portTriesOfProof) // a port for the proof may be in use
	foreignListener(t, iwarp.New(nil), addrOf(l), func(in *verbs.Incoming) {
		_, _, err := raw(t, shm.New(nil), addrOf(l), in.PrivateData())
		relayed <- err
		call, _ := decodeHello(in.PrivateData(), helloRequest)
		yes := hello{kind: helloAccept, from: call.to, to: call.from}
		acceptAs(t, in, yes.appendTo(nil))
	})
	d := &Dialer{Config: with(iwarp.New(nil))}
	d.Config.RequireRDMA = true
	_, err := d.DialConn(t.Context(), "tcp", l.Addr().String())
	wantIs(t, err, ErrUnproven)
	if err := <-relayed; err != nil {
		t.Errorf("the true listener refused the relayed request: %v", err)
	}
}

// TestAnnouncedPortOfOtherProgramStaysIntact announces a port for the proof from which another
// program connects by TCP: that connection loses no byte.
func TestAnnouncedPortOfOtherProgramStaysIntact(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		cfg := with(provider())
		cfg.HandshakeTimeout = 300 * time.Millisecond
		l := listenOn(t, &ListenConfig{Config: cfg}, "127.0.0.1:0")
		for _, text := range []string{"GET / HTTP/1.1\r\n", "RSOCK\x02\x04\x00no such nonce", ""} {
			var c net.Conn
			for end := time.Now().Add(patience); c == nil; {
				port := dynamicPort()
				if _, err := silent(t, provider(), l, port); err != nil {
					if time.Now().After(end) {
						t.Fatal(err)
					}
					continue // the listener was too late to accept it
				}
				nd := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}}
				c, _ = nd.Dial("tcp", l.Addr().String()) // fails if the port is in use
			}
			defer c.Close()
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			a, err := l.AcceptConn()
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := a.SetReadDeadline(time.Now().Add(patience)); err != nil { // a lost byte never comes
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, "more"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(text)+4)
			if _, err := io.ReadFull(a, got); err != nil || string(got) != text+"more" {
				t.Errorf("the service read %q, %v", got, err)
			}
			if _, err := a.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			if n, err := c.Read(make([]byte, 2)); n != 1 || err != nil {
				t.Errorf("the client read %d bytes, %v", n, err)
			}
		}
	})
}

// TestDialerWithoutProofIsNotAccepted negotiates without asking for the proof: AcceptConn does
// not return the connection.
func TestDialerWithoutProofIsNotAccepted(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		r := newRouter(with(provider()))
		f := fabricOf(provider())
		f.provider = r.cfg.Providers[0]
		svc, err := r.services.open(t.Context(), f, localOf(f.provider, addrOf(l).Addr()))
		if err != nil {
			t.Fatal(err)
		}
		defer svc.release()
		sock, err := svc.Socket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.newStream(t.Context(), sock)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Abort()
		from := netip.MustParseAddrPort("127.0.0.1:0")
		if f.inHost() {
			from = netip.MustParseAddrPort("127.0.0.1:50000")
		}
		call := hello{kind: helloRequest, from: from, to: addrOf(l), proofPort: 50000, nonce: newNonce()}
		if _, err := sock.Connect(t.Context(), rdmaAddrOf(f.provider, addrOf(l)), call.appendTo(nil)); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context(), true); err == nil {
			_ = s.SetReadDeadline(time.Now().Add(patience))
			_, err = s.Read(make([]byte, 1))
			wantIs(t, err, syscall.ECONNRESET)
		}
		c, err := new(Dialer).DialConn(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := l.AcceptConn()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if a.Transport().RDMA() {
			t.Error("the unproven connection was accepted")
		}
	})
}

// TestProofPassesWaitingTCPConnections has TCP connections wait for AcceptConn: a dial by RDMA
// does not wait with them.
func TestProofPassesWaitingTCPConnections(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		for range 10 {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		c, err := (&Dialer{Config: with(provider())}).DialConn(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !c.Transport().RDMA() {
			t.Errorf("transport %v", c.Transport())
		}
	})
}

// TestSharedPortIsTriedAgain announces a port twice: the second dialer is asked for another
// port.
func TestSharedPortIsTriedAgain(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		if _, err := silent(t, provider(), l, 50000); err != nil {
			t.Fatal(err)
		}
		from := netip.MustParseAddrPort("127.0.0.1:0")
		if fabricOf(provider()).inHost() {
			from = netip.MustParseAddrPort("127.0.0.1:50001")
		}
		call := hello{kind: helloRequest, from: from, to: addrOf(l), proofPort: 50000, nonce: newNonce()}
		_, reply, err := raw(t, provider(), addrOf(l), call.appendTo(nil))
		e := endpoint{fabric: *fabricOf(provider())}
		wantIs(t, connectOutcome(&e, addrOf(l), reply, err), errPortInUse)
	})
}
