package rsock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rsock/internal/verbs"
)

// errBroken is the error of a broken provider.
var errBroken = errors.New("the device is on fire")

// TestFallbackToTCP causes each failure after which a dial goes on with TCP. [WSD §3.1]
func TestFallbackToTCP(t *testing.T) {
	cases := []struct {
		name   string
		answer func(*testing.T, *verbs.Incoming) // of a foreign program at the RDMA address
		alter  func(*altered)                    // the dialer's provider
		reason error
		quick  bool // the handshake timeout is short
		asks   bool // a TCP connection asks for the proof
	}{
		{name: "no RDMA listener", reason: errNoListener},
		{name: "a foreign program refuses", answer: func(t *testing.T, in *verbs.Incoming) {
			in.Reject(nil)
		}},
		{name: "a foreign program refuses with data of its own", reason: ErrNotRSock, answer: func(t *testing.T, in *verbs.Incoming) {
			in.Reject([]byte("GO AWAY, RSOCK"))
		}},
		{name: "a foreign program accepts", reason: ErrNotRSock, answer: func(t *testing.T, in *verbs.Incoming) {
			acceptAs(t, in, []byte("welcome"))
		}},
		{name: "a foreign program repeats the request", reason: ErrNotRSock, answer: func(t *testing.T, in *verbs.Incoming) {
			acceptAs(t, in, in.PrivateData())
		}},
		{name: "an RDMA listener that does not negotiate", reason: context.DeadlineExceeded, quick: true, asks: true, answer: func(t *testing.T, in *verbs.Incoming) {
			call, _ := decodeHello(in.PrivateData(), helloRequest)
			yes := hello{kind: helloAccept, from: call.to, to: call.from}
			acceptAs(t, in, yes.appendTo(nil))
		}},
		{name: "a foreign program that does not answer", reason: context.DeadlineExceeded, quick: true, answer: func(t *testing.T, in *verbs.Incoming) {
			t.Cleanup(func() { in.Socket().Close() })
		}},
		{name: "an RDMA listener refuses", reason: syscall.ECONNREFUSED, answer: rejectAs(rejectedRefused)},
		{name: "the backlog of an RDMA listener is full", reason: syscall.ECONNREFUSED, answer: rejectAs(rejectedBacklog)},
		{name: "an RDMA listener is closing", reason: syscall.ECONNRESET, answer: rejectAs(rejectedClosing)},
		{name: "the adapter does not open", reason: errBroken, alter: func(p *altered) {
			p.open = func() error { return errBroken }
		}},
		{name: "another subnet", reason: ErrNoSubnet, alter: func(p *altered) {
			p.addrs = addresses("192.0.2.1")
		}},
		{name: "addresses not known", reason: errBroken, alter: func(p *altered) {
			p.addrs = func() ([]netip.Addr, error) { return nil, errBroken }
		}},
		{name: "no loopback", reason: errNoLoopback, alter: func(p *altered) {
			p.caps, p.addrs = rdma.CapLoopback, addresses("127.0.0.1")
		}},
		{name: "the network is unreachable", reason: syscall.ENETUNREACH, alter: func(p *altered) {
			p.connect = rdma.StatusNetworkUnreachable
		}},
		{name: "the device fails", reason: rdma.StatusDeviceRemoved, alter: func(p *altered) {
			p.connect = rdma.StatusDeviceRemoved
		}},
	}
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				l := countTCP(t, "127.0.0.1:0")
				if c.answer != nil {
					foreignListener(t, provider(), addrOf(l), func(in *verbs.Incoming) { c.answer(t, in) })
				}
				p := &altered{Provider: provider()}
				if c.alter != nil {
					c.alter(p)
				}
				if p.caps != 0 && fabricOf(provider()).inHost() {
					skip.Test(t, "a fabric inside the host connects it to itself, or is none")
				}
				d := &Dialer{Config: with(p)}
				if c.quick {
					d.Config.HandshakeTimeout = 100 * time.Millisecond
				}
				conn, err := d.DialConn(t.Context(), "tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if conn.Transport().RDMA() {
					t.Fatalf("transport %v", conn.Transport())
				}
				if err := reasonOf(t, conn, p.Name()); c.reason != nil {
					wantIs(t, err, c.reason)
				}
				// The same failure is an error if RDMA is required.
				d = &Dialer{Config: with(p)}
				d.Config.RequireRDMA, d.Config.HandshakeTimeout = true, 100*time.Millisecond
				came := l.came.Load()
				_, err = d.Dial("tcp", l.Addr().String())
				wantIs(t, err, ErrNoRDMA)
				var op *net.OpError
				if !errors.As(err, &op) || op.Addr.String() != l.Addr().String() {
					t.Errorf("dial: %v is no *net.OpError of the address", err)
				}
				if c.asks {
					came = max(came, 2) + 1
				}
				if l.came.Load() > max(came, 1) {
					t.Error("TCP was tried, though RDMA is required")
				}
			})
		}
	})
}

// acceptAs accepts a connection with private data.
func acceptAs(t *testing.T, in *verbs.Incoming, private []byte) {
	receiving(t, in.Socket())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s, err := in.Accept(ctx, private); err == nil {
		t.Cleanup(func() { s.Close() })
	}
}

// rejectAs returns a foreign program that rejects as an RDMA listener does.
func rejectAs(why rejection) func(*testing.T, *verbs.Incoming) {
	return func(t *testing.T, in *verbs.Incoming) {
		call, err := decodeHello(in.PrivateData(), helloRequest)
		if err != nil {
			t.Error(err)
		}
		no := hello{kind: helloReject, reason: why, from: call.to, to: call.from}
		in.Reject(no.appendTo(nil))
	}
}

// TestUnreachableHostEndsDialWithoutTCP has the host of the destination unreachable. [WSD §3.1]
func TestUnreachableHostEndsDialWithoutTCP(t *testing.T) {
	p := &altered{Provider: iwarp.New(nil), connect: rdma.StatusHostUnreachable}
	l := countTCP(t, "127.0.0.1:0")
	for _, require := range []bool{false, true} {
		d := &Dialer{Config: with(p)}
		d.Config.RequireRDMA = require
		_, err := d.Dial("tcp", l.Addr().String())
		wantIs(t, err, syscall.EHOSTUNREACH)
		var op *net.OpError
		var e *Error
		if !errors.As(err, &op) || !errors.As(err, &e) || !e.Final || e.Provider != p.Name() {
			t.Errorf("the error is %#v", err)
		}
	}
	// The listener counts connections in order, so all earlier TCP connections are counted
	// now.
	last, err := new(Dialer).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	for l.came.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if n := l.came.Load(); n != 1 {
		t.Errorf("TCP was tried %d times", n-1)
	}
}

// TestUnreachableRDMAAddressLeadsToTCP has the RDMA listener at an address that is not the
// destination: if the address cannot be reached, TCP is tried.
func TestUnreachableRDMAAddressLeadsToTCP(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		p := &altered{Provider: provider(), connect: rdma.StatusHostUnreachable}
		l := countTCP(t, "127.0.0.1:0")
		d := &Dialer{Config: with(p)}
		d.Config.RDMAAddr = func(_ string, tcp netip.AddrPort) netip.AddrPort {
			return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.77"), tcp.Port())
		}
		c, err := d.DialConn(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		wantIs(t, reasonOf(t, c, p.Name()), syscall.EHOSTUNREACH)
	})
}

func TestNoProviderIsConfigured(t *testing.T) {
	d := &Dialer{Config: &Config{RequireRDMA: true}}
	_, err := d.Dial("tcp", "127.0.0.1:1")
	wantIs(t, err, ErrNoRDMA)
	_, err = Listen("tcp", "127.0.0.1:0", &Config{RequireRDMA: true})
	wantIs(t, err, ErrNoRDMA)
}

// TestCanceledDialEndsWithoutTCP cancels a dial: it ends at once, and TCP is not tried.
func TestCanceledDialEndsWithoutTCP(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := countTCP(t, "127.0.0.1:0")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		foreignListener(t, provider(), addrOf(l), func(in *verbs.Incoming) {
			t.Cleanup(func() { in.Socket().Close() })
			cancel()
		})
		d := &Dialer{Config: with(provider())}
		d.Config.HandshakeTimeout = time.Hour
		_, err := d.DialConn(ctx, "tcp", l.Addr().String())
		wantIs(t, err, context.Canceled)
	})
}

// TestHalfOfTheTimeIsForTCP limits the time of a dial: RDMA gets half of it. The test has a
// clock of its own.
func TestHalfOfTheTimeIsForTCP(t *testing.T) {
	const limit = 2 * time.Hour
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		for _, how := range []string{"context", "timeout of Net", "deadline of Net"} {
			t.Run(how, func(t *testing.T) {
				l := countTCP(t, "127.0.0.1:0")
				synctest.Test(t, func(t *testing.T) {
					d := &Dialer{Config: with(&altered{Provider: provider(), waits: true})}
					d.Config.HandshakeTimeout = 2 * limit
					began, ctx := time.Now(), t.Context()
					switch how {
					case "context":
						c, stop := context.WithTimeout(ctx, limit)
						defer stop()
						ctx = c
					case "timeout of Net":
						d.NetDialer = &net.Dialer{Timeout: limit}
					case "deadline of Net":
						d.NetDialer = &net.Dialer{Deadline: began.Add(limit)}
					}
					c, err := d.DialConn(ctx, "tcp", l.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					wantIs(t, reasonOf(t, c, provider().Name()), context.DeadlineExceeded)
					if took := time.Since(began); took != limit/2 {
						t.Errorf("RDMA had %v of %v", took, limit)
					}
				})
			})
		}
	})
}

// TestUnresponsiveListenerIsSkipped dials an RDMA listener that does not answer: until
// RetryInterval is over, later dials do not wait for the listener. A dial that requires RDMA
// tries it again.
func TestUnresponsiveListenerIsSkipped(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := countTCP(t, "127.0.0.1:0")
		foreignListener(t, provider(), addrOf(l), func(in *verbs.Incoming) {
			t.Cleanup(func() { in.Socket().Close() })
		})
		d := &Dialer{Config: with(provider())}
		d.Config.HandshakeTimeout, d.Config.RetryInterval = 100*time.Millisecond, time.Hour
		if err := d.Drain(t.Context()); err != nil { // which makes the router
			t.Fatal(err)
		}
		table, err := d.router.subnets.current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The provider is open already, so that only the RDMA listener delays the dial.
		open, err := d.router.services.open(t.Context(), &table.fabrics[0], localOf(provider(), addrOf(l).Addr()))
		if err != nil {
			t.Fatal(err)
		}
		defer open.release()
		dial := func(want error) {
			t.Helper()
			c, err := d.DialConn(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			wantIs(t, reasonOf(t, c, provider().Name()), want)
		}
		dial(context.DeadlineExceeded)
		dial(ErrUnresponsive)
		d.router.cfg.RequireRDMA = true
		if _, err := d.Dial("tcp", l.Addr().String()); !errors.Is(err, ErrNoRDMA) || errors.Is(err, ErrUnresponsive) {
			t.Errorf("dial that requires RDMA: %v", err)
		}
		d.router.cfg.RequireRDMA = false
		for at := range d.router.unresponsive.until {
			d.router.unresponsive.until[at] = time.Now() // the interval is over
		}
		dial(context.DeadlineExceeded)

		// A listener that had less than HandshakeTimeout is tried again.
		d.Config.HandshakeTimeout = time.Hour
		r := newRouter(d.Config)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var skipped []Skipped
		if c, err := r.dial(ctx, addrOf(l), netip.AddrPort{}, &skipped); c != nil || err != nil || len(skipped) != 1 {
			t.Fatalf("dial of a silent RDMA listener: %v, %v, skipped %v", c, err, skipped)
		}
		wantIs(t, skipped[0].Reason, context.DeadlineExceeded)
		if n := len(r.unresponsive.until); n != 0 {
			t.Errorf("%d listeners are skipped", n)
		}
	})
}

// TestUnresponsiveListenersAreBounded enters more than maxUnresponsive addresses.
func TestUnresponsiveListenersAreBounded(t *testing.T) {
	r := newRouter(nil)
	for i := range 3 * maxUnresponsive {
		r.unresponsive.add(rdma.IPAddr("iwarp", netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(i))), time.Minute)
		if len(r.unresponsive.until) > maxUnresponsive {
			t.Fatalf("%d addresses are remembered", len(r.unresponsive.until))
		}
	}
}
