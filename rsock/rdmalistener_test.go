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

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rsock/internal/verbs"
)

// TestRequireRDMAOfListener: connections by TCP are reset, those by RDMA taken.
func TestRequireRDMAOfListener(t *testing.T) {
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

// TestPortZeroLooksForAFreeCompanion: the first port's companion is somebody else's.
func TestPortZeroLooksForAFreeCompanion(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		var taken, refused []netip.AddrPort
		ours := false // else somebody else has that port already
		p := provider()
		cfg := with(p)
		cfg.RDMAAddr = func(fabric string, tcp netip.AddrPort) netip.AddrPort {
			if len(taken) == 0 {
				taken = append(taken, tcp)
				err := tryStranger(t, provider(), tcp, func(*verbs.Incoming) {})
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

		// With a port of one's own choice there is no companion then.
		l.Close()
		again, err := Listen("tcp", taken[0].String(), with(provider()))
		if errors.Is(err, syscall.EADDRINUSE) {
			t.Skip("somebody else has the first port by now")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if got := again.RDMAAddrs(); ours && len(got) != 0 {
			t.Errorf("companions at a stranger's address: %v", got)
		}
	})
}

// TestNewAddresses: a listener of an unspecified address follows the provider's addresses.
func TestNewAddresses(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		if fabricOf(provider()).inHost() {
			t.Skip("a fabric inside the host has no addresses")
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
		cfg.RefreshInterval = time.Nanosecond // each look is a new one
		tcp := listenTCP(t, "tcp4", "0.0.0.0:0")
		// Without start nobody but this test looks.
		l := newListener(&ListenConfig{Config: cfg}, newRouter(cfg), tcp, "tcp4")
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
				t.Errorf("companions at %v, want %v", at, hosts)
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
			t.Error("an address that is gone is still served")
		}
		set()
	})
}

// tcpPort is the port of a listener.
func tcpPort(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestCompanionsAreTriedAgain: one that could not listen does so when it can.
func TestCompanionsAreTriedAgain(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		var works atomic.Bool
		cfg := with(&altered{Provider: provider(), open: func() error {
			if works.Load() {
				return nil
			}
			return errBroken
		}})
		cfg.RefreshInterval = time.Millisecond
		free := listenTCP(t, "tcp", "127.0.0.1:0") // with its companion's port
		free.Close()
		l := listenOn(t, &ListenConfig{Config: cfg}, free.Addr().String())
		if n := len(l.RDMAAddrs()); n != 0 {
			t.Fatalf("%d companions", n)
		}
		works.Store(true)
		for len(l.RDMAAddrs()) == 0 {
			time.Sleep(time.Millisecond)
		}
		c, a := pairOf(t, &Dialer{Config: with(provider())}, l)
		mustBe(t, c, a, provider().Name())
	})
}

// TestProviderFailsForAWhile: a listener whose provider cannot make connections for a while
// takes them later.
func TestProviderFailsForAWhile(t *testing.T) {
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
		for opened.Load() < 3 { // the listener's own, and one for each connection
			time.Sleep(time.Millisecond)
		}
		fails.Store(true)
		pairOf(t, d, l) // by the adapter that is open for the next already
		<-failed
		fails.Store(false)
		c, a := pairOf(t, d, l)
		mustBe(t, c, a, provider().Name())
	})
}

// TestListenerHearsOfChanges: a listener follows the addresses when it is told that they have
// changed, long before it would look at them by itself. [WSD §1]
func TestListenerHearsOfChanges(t *testing.T) {
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
		t.Fatalf("%d companions of one address", n)
	}
	for _, now := range [][]string{{"127.0.0.1", "127.0.0.2"}, {"127.0.0.2"}} {
		mu.Lock()
		list = now
		mu.Unlock()
		changed <- struct{}{}
		for end := time.Now().Add(patience); len(l.RDMAAddrs()) != len(now); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("companions %v at the addresses %v", l.RDMAAddrs(), now)
			}
		}
	}
	l.Close()
	<-watched
}

// TestListenerMissesNoChange: an address that comes after a listener has looked, and before it
// hears of changes, gets a companion too. [WSD §1]
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
			t.Fatalf("companions %v", l.RDMAAddrs())
		}
	}
}

// TestListenerComplainsOnce: why a provider has no addresses is logged when it changes, not
// each time that it is looked at.
func TestListenerComplainsOnce(t *testing.T) {
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
	changed <- struct{}{} // follow has looked once
	for _, err := range []error{errors.New("second"), nil, errors.New("second")} {
		changed <- struct{}{} // and what came before is dealt with
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

// n is how often a word is in it.
func (l *lines) n(word string) int { return strings.Count(l.text(), word) }
