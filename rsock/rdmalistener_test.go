package rsock

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rsock/internal/verbs"
)

// TestRequireRDMAResetsTCP dials a listener that requires RDMA by TCP and by RDMA.
func TestRequireRDMAResetsTCP(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		cfg := with(provider())
		cfg.RequireRDMA = true
		l := listenOn(t, &ListenConfig{Config: cfg}, "127.0.0.1:0")
		c, err := new(Dialer).DialConn(t.Context(), "tcp", l.Addr().String())
		if err == nil {
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
		}
		wantIs(t, err, syscall.ECONNRESET)
		d, a := pairOf(t, &Dialer{Config: cfg}, l)
		mustBe(t, d, a, provider().Name())

		_, err = Listen("tcp", "127.0.0.1:0", &Config{RequireRDMA: true, Providers: []rdma.Provider{
			&altered{Provider: provider(), open: func() error { return errBroken }},
		}})
		wantIs(t, err, ErrNoRDMA)
		wantIs(t, err, errBroken)
	})
}

// TestPortZeroFindsFreeRDMAPort listens at port 0 while the RDMA address of the first port is
// in use.
func TestPortZeroFindsFreeRDMAPort(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		var taken, refused []netip.AddrPort
		ours := false // false: another program has the port already
		p := provider()
		cfg := with(p)
		cfg.RDMAAddr = func(fabric string, tcp netip.AddrPort) netip.AddrPort {
			if len(taken) == 0 {
				taken = append(taken, tcp)
				err := tryForeignListener(t, provider(), tcp, func(*verbs.Incoming) {})
				if ours = err == nil; !ours && !errors.Is(err, syscall.EADDRINUSE) {
					t.Error(err)
				}
			}
			if slices.Contains(taken, tcp) {
				refused = append(refused, tcp)
			}
			return DefaultRDMAAddr(fabric, tcp)
		}
		l := listenOn(t, &ListenConfig{Config: cfg}, "127.0.0.1:0")
		if len(refused) == 0 || addrOf(l) == taken[0] || len(l.RDMAAddrs()) != 1 {
			t.Errorf("listens at %v with %v, though %v was taken", l.Addr(), l.RDMAAddrs(), taken)
		}
		c, a := pairOf(t, &Dialer{Config: with(provider())}, l)
		mustBe(t, c, a, p.Name())

		// For a port that is not 0 there is no RDMA listener then.
		l.Close()
		again, err := Listen("tcp", taken[0].String(), with(provider()))
		if errors.Is(err, syscall.EADDRINUSE) {
			skip.Test(t, "another program has the first port by now")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if got := again.RDMAAddrs(); ours && len(got) != 0 {
			t.Errorf("RDMA listeners at an address in use: %v", got)
		}
	})
}

// TestListenersFollowAddresses changes the addresses of a provider: a listener of an
// unspecified address opens and closes RDMA listeners.
func TestListenersFollowAddresses(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		if fabricOf(provider()).inHost() {
			skip.Test(t, "a fabric inside the host has no addresses")
		}
		var mu sync.Mutex
		has := []string{"127.0.0.1"}
		set := func(list ...string) {
			mu.Lock()
			defer mu.Unlock()
			has = list
		}
		p := &altered{Provider: provider(), addrs: func() ([]netip.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			return addresses(has...)()
		}}
		cfg := with(p)
		cfg.RefreshInterval = time.Nanosecond // every table is too old
		tcp := listenTCP(t, "tcp4", "0.0.0.0:0")
		// Without start only this test calls openAll.
		l := newListener(&ListenConfig{Config: cfg}, newRouter(cfg), tcp, "tcp4")
		l.wg.Go(l.acceptTCP) // for the proofs
		l.wg.Go(l.serveTCP)
		defer l.Close()
		want := func(hosts ...string) {
			t.Helper()
			if failed := l.rdma.openAll(t.Context()); len(failed) > 0 {
				t.Fatal(failed)
			}
			var at []string
			for _, a := range l.RDMAAddrs() {
				at = append(at, a.(rdma.Addr).AddrPort.Addr().String())
			}
			if !slices.Equal(at, hosts) {
				t.Errorf("RDMA listeners at %v, want %v", at, hosts)
			}
			for _, h := range hosts {
				address := net.JoinHostPort(h, tcpPort(l))
				c, err := (&Dialer{Config: with(provider())}).DialConn(t.Context(), "tcp4", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				a, err := l.AcceptConn()
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				mustBe(t, c, a, p.Name())
			}
		}
		want("127.0.0.1")
		set("127.0.0.1", "127.0.0.2")
		want("127.0.0.1", "127.0.0.2")
		set("127.0.0.2", "127.0.0.3")
		want("127.0.0.2", "127.0.0.3")
		c, err := (&Dialer{Config: &Config{Providers: []rdma.Provider{provider()}, RequireRDMA: true}}).DialConn(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", tcpPort(l)))
		if err == nil {
			c.Close()
			t.Error("an RDMA listener still listens at an address that is gone")
		}
		set()
	})
}

// tcpPort returns the port of a listener.
func tcpPort(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestFailedListenersAreRetried frees the address of an RDMA listener that could not listen.
func TestFailedListenersAreRetried(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		var works atomic.Bool
		cfg := with(&altered{Provider: provider(), open: func() error {
			if works.Load() {
				return nil
			}
			return errBroken
		}})
		cfg.RefreshInterval = time.Millisecond
		free := listenTCP(t, "tcp", "127.0.0.1:0") // with the port of its RDMA listener
		free.Close()
		l := listenOn(t, &ListenConfig{Config: cfg}, free.Addr().String())
		if n := len(l.RDMAAddrs()); n != 0 {
			t.Fatalf("%d RDMA listeners", n)
		}
		works.Store(true)
		for len(l.RDMAAddrs()) == 0 {
			time.Sleep(time.Millisecond)
		}
		c, a := pairOf(t, &Dialer{Config: with(provider())}, l)
		mustBe(t, c, a, provider().Name())
	})
}

// TestListenerSurvivesProviderFailure has a provider fail to accept some connections: the
// listener accepts later connections.
func TestListenerSurvivesProviderFailure(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		var fails atomic.Bool
		var opened atomic.Int32
		failed := make(chan struct{}, 100)
		p := &altered{Provider: provider(), open: func() error {
			if !fails.Load() {
				opened.Add(1)
				return nil
			}
			failed <- struct{}{}
			return errBroken
		}}
		l := listenOn(t, &ListenConfig{Config: with(p)}, "127.0.0.1:0")
		d := &Dialer{Config: with(provider())}
		pairOf(t, d, l)
		for opened.Load() < 3 { // one adapter of the listener, and one for each connection
			time.Sleep(time.Millisecond)
		}
		fails.Store(true)
		pairOf(t, d, l) // by the adapter that is already open for the next request
		<-failed
		fails.Store(false)
		c, a := pairOf(t, d, l)
		mustBe(t, c, a, provider().Name())
	})
}

// TestListenerFollowsNotifications notifies a listener of address changes: the listener
// follows the changes before RefreshInterval is over. [WSD §1]
func TestListenerFollowsNotifications(t *testing.T) {
	var mu sync.Mutex
	list := []string{"127.0.0.1"}
	changed, watched := make(chan struct{}), make(chan struct{})
	cfg := with(&altered{Provider: iwarp.New(nil), addrs: func() ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		return addresses(list...)()
	}})
	cfg.RefreshInterval = time.Hour
	cfg.watch = func() (<-chan struct{}, func(), error) { return changed, func() { close(watched) }, nil }
	l := listenOn(t, &ListenConfig{Config: cfg}, "0.0.0.0:0")
	if n := len(l.RDMAAddrs()); n != 1 {
		t.Fatalf("%d RDMA listeners of one address", n)
	}
	for _, now := range [][]string{{"127.0.0.1", "127.0.0.2"}, {"127.0.0.2"}} {
		mu.Lock()
		list = now
		mu.Unlock()
		changed <- struct{}{}
		for end := time.Now().Add(patience); len(l.RDMAAddrs()) != len(now); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("RDMA listeners %v at the addresses %v", l.RDMAAddrs(), now)
			}
		}
	}
	l.Close()
	<-watched
}

// TestListenerMissesNoChange adds an address after a listener has read the addresses, and
// before it is notified of changes: the address gets an RDMA listener too. [WSD §1]
func TestListenerMissesNoChange(t *testing.T) {
	var late atomic.Bool
	cfg := with(&altered{Provider: iwarp.New(nil), addrs: func() ([]netip.Addr, error) {
		if late.Load() {
			return addresses("127.0.0.1", "127.0.0.2")()
		}
		return addresses("127.0.0.1")()
	}})
	cfg.RefreshInterval = time.Hour
	cfg.watch = func() (<-chan struct{}, func(), error) {
		late.Store(true)
		return nil, func() {}, nil
	}
	l := listenOn(t, &ListenConfig{Config: cfg}, "0.0.0.0:0")
	for end := time.Now().Add(patience); len(l.RDMAAddrs()) != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("RDMA listeners %v", l.RDMAAddrs())
		}
	}
}

// TestUnusableProviderIsLoggedOnce logs why a provider has no addresses when that changes, not
// each time that the addresses are read.
func TestUnusableProviderIsLoggedOnce(t *testing.T) {
	var why atomic.Pointer[error]
	set := func(err error) { why.Store(&err) }
	set(errors.New("first"))
	var log lines
	changed := make(chan struct{})
	cfg := with(&altered{Provider: iwarp.New(nil), addrs: func() ([]netip.Addr, error) {
		if err := *why.Load(); err != nil {
			return nil, err
		}
		return addresses("127.0.0.1")()
	}})
	cfg.RefreshInterval, cfg.Logger = time.Hour, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.watch = func() (<-chan struct{}, func(), error) { return changed, func() {}, nil }
	l := listenOn(t, &ListenConfig{Config: cfg}, "127.0.0.1:0")
	changed <- struct{}{} // follow has read the addresses once
	for _, err := range []error{errors.New("second"), nil, errors.New("second")} {
		changed <- struct{}{} // and has handled the notifications before
		set(err)
		changed <- struct{}{}
		changed <- struct{}{}
	}
	l.Close()
	if log.n("first") != 1 || log.n("second") != 2 {
		t.Errorf("logged:\n%s", log.text())
	}
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// n returns how often a word is in the log.
func (l *lines) n(word string) int { return strings.Count(l.text(), word) }
