package rsock

import (
	"context"
	"net"
	"sync"
	"time"

	"lwio/internal/ratelimit"
	"lwio/rdma"
	"lwio/rsock/internal/stream"
	"lwio/rsock/internal/verbs"
)

// router chooses the transport of the connections of a Dialer or a Listener, and holds their
// shared state: the table of subnets, the providers in use, the budget for large data. Safe
// for concurrent use.
type router struct {
	cfg          Config
	net          *net.Dialer    // connects to ask for proofs
	ports        func() uint16  // picks ports to connect from to ask for proofs
	bulk         *stream.Budget // nil: no bound
	draining     draining
	subnets      subnetCache
	services     servicePool
	unresponsive unresponsive
	noise        ratelimit.Log // for log lines that any peer can cause
}

func newRouter(cfg *Config) *router {
	r := &router{cfg: cfg.withDefaults(), net: new(net.Dialer), ports: dynamicPort}
	r.subnets.init(&r.cfg)
	r.services.init(&r.cfg)
	r.unresponsive.until = make(map[rdma.Addr]time.Time)
	if r.cfg.MaxBulkMemory > 0 {
		r.bulk = stream.NewBudget(r.cfg.MaxBulkMemory)
	}
	return r
}

// newStream prepares a stream on a socket that is not connected. The caller calls Start
// next, and then newRDMAConn, or Abort, which also closes the socket. After an error the
// socket is closed.
func (r *router) newStream(ctx context.Context, sock *verbs.Socket) (*stream.Stream, error) {
	cfg := &r.cfg
	return stream.New(ctx, sock, stream.Config{
		ReceiveBuffers: cfg.ReceiveBuffers, BufferSize: cfg.BufferSize,
		Threshold: cfg.RDMAThreshold, NoRead: cfg.DisableRDMARead, BusyPoll: cfg.BusyPoll,
		Linger: cfg.Linger, Memory: r.bulk,
	})
}

// maxUnresponsive bounds the addresses that a dialer does not try. With more addresses all
// of them are tried again.
const maxUnresponsive = 1024

// unresponsive holds the addresses of RDMA listeners that did not answer in time, and the
// time until which each is not tried. Safe for concurrent use.
type unresponsive struct {
	mu    sync.Mutex // guards the fields below
	until map[rdma.Addr]time.Time
}

// add enters an address for the time of an interval.
func (u *unresponsive) add(at rdma.Addr, interval time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.until) >= maxUnresponsive {
		clear(u.until)
	}
	u.until[at] = time.Now().Add(interval)
}

// has reports whether an address must not be tried yet. It removes an address whose time is
// over.
func (u *unresponsive) has(at rdma.Addr) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	until, ok := u.until[at]
	if ok && !time.Now().Before(until) {
		delete(u.until, at)
		ok = false
	}
	return ok
}
