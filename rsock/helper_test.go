package rsock

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
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

// eachProvider runs a test with each provider that works on this system. provider makes a
// new provider.
func eachProvider(t *testing.T, test func(t *testing.T, provider func() rdma.Provider)) {
	t.Run("iwarp", func(t *testing.T) {
		test(t, func() rdma.Provider { return iwarp.New(nil) })
	})
	t.Run("shm", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			skip.Test(t, "shared memory is for Linux")
		}
		test(t, func() rdma.Provider { return shm.New(nil) })
	})
}

// patience is how long a test waits for an event that must happen.
const patience = 20 * time.Second

// with returns a Config with providers, and with timeouts for a busy machine.
func with(p ...rdma.Provider) *Config {
	return &Config{Providers: p, HandshakeTimeout: patience, Linger: patience}
}

// altered is a provider with changes; zero fields change nothing.
type altered struct {
	rdma.Provider
	name    string
	addrs   func() ([]netip.Addr, error)
	open    func() error
	caps    rdma.Caps // removed
	connect error     // returned by Connect of all connectors
	waits   bool      // connectors get no answer
}

func (p *altered) Name() string {
	if p.name != "" {
		return p.name
	}
	return p.Provider.Name()
}

func (p *altered) Addrs(ctx context.Context) ([]netip.Addr, error) {
	if p.addrs != nil {
		return p.addrs()
	}
	return p.Provider.Addrs(ctx)
}

func (p *altered) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	if p.open != nil {
		if err := p.open(); err != nil {
			return nil, err
		}
	}
	a, err := p.Provider.OpenAdapter(ctx, local)
	if err != nil {
		return nil, err
	}
	return &alteredAdapter{a, p}, nil
}

type alteredAdapter struct {
	rdma.Adapter
	p *altered
}

func (a *alteredAdapter) Info() rdma.AdapterInfo {
	info := a.Adapter.Info()
	info.Caps &^= a.p.caps
	return info
}

func (a *alteredAdapter) CreateConnector() (rdma.Connector, error) {
	c, err := a.Adapter.CreateConnector()
	if err == nil && (a.p.connect != nil || a.p.waits) {
		c = &alteredConnector{c, a.p.connect, a.p.waits}
	}
	return c, err
}

type alteredConnector struct {
	rdma.Connector
	err   error
	waits bool
}

func (c *alteredConnector) Connect(ctx context.Context, _ rdma.QueuePair, _ rdma.Addr, _ rdma.ReadLimits, _ []byte) error {
	if c.waits {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return c.err
}

// counting is a listener that speaks only TCP, and counts.
type counting struct {
	net.Listener
	came atomic.Int64
}

// countTCP listens by TCP alone until the test ends.
func countTCP(t *testing.T, address string) *counting {
	t.Helper()
	nl := listenTCP(t, "tcp", address)
	l := &counting{Listener: nl}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := nl.Accept()
			if err != nil {
				return
			}
			l.came.Add(1)
			t.Cleanup(func() { c.Close() })
		}
	}()
	t.Cleanup(func() { nl.Close(); <-done })
	return l
}

// listenTCP listens by TCP at a port whose RDMA port is free too.
func listenTCP(t *testing.T, network, address string) *net.TCPListener {
	t.Helper()
	for {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		over := DefaultRDMAAddr(fabricOverTCP, addrOf(l))
		if probe, err := net.Listen(network, over.String()); err == nil {
			probe.Close()
			return l.(*net.TCPListener)
		}
		l.Close()
	}
}

// pairFromFixedPort connects from a port of the test, and checks the port. It takes another
// port if another program takes the port first.
func pairFromFixedPort(t *testing.T, dialer func(*net.Dialer) *Dialer, l *Listener) (dialed, accepted *Conn) {
	t.Helper()
	var err error
	for range 3 {
		free := listenTCP(t, "tcp", "127.0.0.1:0")
		from := free.Addr()
		free.Close()
		dialed, err = dialer(&net.Dialer{LocalAddr: from}).DialConn(t.Context(), "tcp", l.Addr().String())
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			break
		}
		t.Cleanup(func() { dialed.Close() })
		if dialed.LocalAddr().String() != from.String() {
			t.Errorf("connected from %v, want %v", dialed.LocalAddr(), from)
		}
		if accepted, err = l.AcceptConn(); err != nil {
			break
		}
		t.Cleanup(func() { accepted.Close() })
		return dialed, accepted
	}
	t.Fatal(err)
	return nil, nil
}

// addrOf returns the address of a listener.
func addrOf(l net.Listener) netip.AddrPort {
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// rdmaAddrOf returns the address of the RDMA listener that a listener at tcp would have.
func rdmaAddrOf(p rdma.Provider, tcp netip.AddrPort) rdma.Addr {
	cfg := (*Config)(nil).withDefaults()
	return rdmaAddr(&cfg, fabricOf(p), tcp)
}

// fabricOf returns the fabric of a provider.
func fabricOf(p rdma.Provider) *fabric {
	addrs, _ := p.Addrs(context.Background())
	return &fabric{provider: p, addrs: addrs}
}

// localOf returns the address to open the provider on for a connection within this host.
func localOf(p rdma.Provider, a netip.Addr) netip.Addr {
	if fabricOf(p).inHost() {
		return netip.Addr{}
	}
	return a
}

// foreignListener is a foreign program at the address of an RDMA listener. The test handles
// its requests.
func foreignListener(t *testing.T, p rdma.Provider, tcp netip.AddrPort, handle func(*verbs.Incoming)) {
	t.Helper()
	if err := tryForeignListener(t, p, tcp, handle); err != nil {
		t.Fatal(err)
	}
}

// tryForeignListener is foreignListener, unless the address is in use.
func tryForeignListener(t *testing.T, p rdma.Provider, tcp netip.AddrPort, handle func(*verbs.Incoming)) error {
	t.Helper()
	svc, err := verbs.StartupEx(t.Context(), p, localOf(p, tcp.Addr()), nil)
	if err != nil {
		return err
	}
	l, err := svc.Listen(t.Context(), rdmaAddrOf(p, tcp), 0)
	if err != nil {
		return errors.Join(err, svc.Cleanup())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			in, err := l.Accept(ctx)
			if err != nil {
				return
			}
			handle(in)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		l.Close()
		if err := svc.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// receiving posts a receive, which an accept needs.
func receiving(t *testing.T, s *verbs.Socket) *verbs.Overlapped {
	o := new(verbs.Overlapped)
	h, err := s.RegisterMemory(context.Background(), make([]byte, 256), verbs.MemReadWrite)
	if err == nil {
		err = s.Recv(o, []verbs.BufferEx{{Handle: h, Length: 256}}, 0)
	}
	if err != nil {
		t.Error(err)
	}
	return o
}

// raw connects to the RDMA listener of tcp with private data of the test, and returns the
// socket and the answer.
func raw(t *testing.T, p rdma.Provider, tcp netip.AddrPort, private []byte) (*verbs.Socket, []byte, error) {
	t.Helper()
	svc, err := verbs.StartupEx(t.Context(), p, localOf(p, tcp.Addr()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Cleanup() })
	s, err := svc.Socket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	receiving(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reply, err := s.Connect(ctx, rdmaAddrOf(p, tcp), private)
	return s, reply, err
}

// echo checks that bytes go in both directions.
func echo(t *testing.T, a, b net.Conn) {
	t.Helper()
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		if _, err := io.WriteString(way[0], "hello"); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(way[1], got); err != nil || string(got) != "hello" {
			t.Fatalf("read %q, %v", got, err)
		}
	}
}

// reasonOf returns why a connection does not use a provider.
func reasonOf(t *testing.T, c *Conn, provider string) error {
	t.Helper()
	skipped := c.Transport().Skipped
	i := slices.IndexFunc(skipped, func(s Skipped) bool { return s.Provider == provider })
	if i < 0 {
		t.Fatalf("no reason against %s: %v", provider, c.Transport())
	}
	return skipped[i].Reason
}

// wantIs checks that an error wraps another.
func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v, want %v", err, target)
	}
}
