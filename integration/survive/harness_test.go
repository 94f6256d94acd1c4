package survive

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio"
	"lwio/integration/internal/supervise"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// transports are the transports of the tests: over RDMA, and SMB alone.
var transports = []string{"shm", "iwarp", lwio.TransportSMB}

// retry is the pause between two attempts to connect.
const retry = 5 * time.Millisecond

// serve starts a server on a directory. It ends with the test.
func serve(t *testing.T, dir string, flags ...string) *supervise.Server {
	t.Helper()
	return serveBinary(t, lwioBin, dir, flags...)
}

// serveBinary is serve for another build of the command.
func serveBinary(t *testing.T, bin, dir string, flags ...string) *supervise.Server {
	t.Helper()
	s, err := supervise.New(supervise.Config{Binary: bin, Dir: dir, Flags: flags, Metrics: true, Log: testLog{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// testLog passes the standard error of a process to the log of a test.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log("server: " + strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// wires are the connections of one client, which a test cuts.
type wires struct {
	keepAlive time.Duration // Config.KeepAlive
	rdma      atomic.Bool   // the next RDMA request cuts its connection
	refuse    atomic.Bool   // no connection of SMB is made
	mu        sync.Mutex    // guards smb
	smb       []net.Conn
}

// config is the configuration of a client that uses the wires and one transport.
func (w *wires) config(transport string) *lwio.Config {
	cfg := &lwio.Config{
		SMBOnly: transport == lwio.TransportSMB, RequireRDMA: transport != lwio.TransportSMB,
		DialContext: w.dial, Timeout: time.Minute, ReconnectTimeout: time.Minute, KeepAlive: w.keepAlive,
	}
	for _, p := range lwio.DefaultProviders() {
		if p.Name() == transport {
			cfg.Providers = []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: w.decide})}
		}
	}
	return cfg
}

func (w *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.refuse.Load() {
		return nil, syscall.EHOSTUNREACH
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if w.refuse.Load() { // so no connection begins after refuse is set
		return nil, errors.Join(c.Close(), syscall.EHOSTUNREACH)
	}
	w.mu.Lock()
	w.smb = append(w.smb, c)
	w.mu.Unlock()
	return c, nil
}

func (w *wires) decide(fault.Attempt) fault.Action {
	if w.rdma.Load() && w.rdma.Swap(false) {
		return fault.Cut()
	}
	return fault.Pass()
}

// cutRDMA ends the RDMA connection before its next request.
func (w *wires) cutRDMA() { w.rdma.Store(true) }

// cutSMB ends the TCP connections of SMB for both sides.
func (w *wires) cutSMB() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.smb {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // a closed one is cut already
		}
	}
	w.smb = nil
}

// durations prints the median and the maximum of measured times.
type durations struct {
	mu   sync.Mutex // guards list
	list map[string][]time.Duration
}

func (d *durations) add(what string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		d.list = make(map[string][]time.Duration)
	}
	d.list[what] = append(d.list[what], took)
}

func (d *durations) log(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for what := range d.list {
		names = append(names, what)
	}
	slices.Sort(names)
	for _, what := range names {
		l := d.list[what]
		slices.Sort(l)
		t.Logf("%s: p50 %v, max %v of %d", what, l[len(l)/2].Round(time.Microsecond), l[len(l)-1].Round(time.Microsecond), len(l))
	}
}
