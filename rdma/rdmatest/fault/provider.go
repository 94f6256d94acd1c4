package fault

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"lwio/rdma"
)

// Config configures a wrapper. The zero value only counts.
type Config struct {
	// Tracer receives the events; nil for none.
	Tracer Tracer
	// Fault decides about every request that is not a receive; nil lets all requests
	// pass. The posting goroutine calls it, for one request of a queue pair at a time.
	// While it blocks, the request and the later posts on the same queue pair wait.
	Fault func(Attempt) Action
	// Shuffle, if not 0, is a seed for a random order of events for which the rules
	// define no order. These are results of different queue pairs in one Poll, results of
	// receives and of other requests of one queue pair in one Poll, and writes to
	// different places in one call. The adapters then do not offer CapInOrderPlacement.
	// If a write fails, the result of another write of the same call may report it.
	Shuffle uint64
}

// numbered reports whether requests are numbered, so that results can be mapped to them.
func (c *Config) numbered() bool { return c.Fault != nil || c.Shuffle != 0 }

// Provider wraps a provider. Safe for concurrent use.
type Provider struct {
	inner         rdma.Provider
	cfg           Config
	pairs, queues atomic.Uint64 // numbers of created objects
	count         counters
}

var _ rdma.Provider = (*Provider)(nil)

// Wrap wraps a provider; cfg may be nil.
func Wrap(inner rdma.Provider, cfg *Config) *Provider {
	p := &Provider{inner: inner}
	if cfg != nil {
		p.cfg = *cfg
	}
	return p
}

// Name returns the name of the wrapped provider.
func (p *Provider) Name() string { return p.inner.Name() }

// Addrs lists the addresses of the wrapped provider.
func (p *Provider) Addrs(ctx context.Context) ([]netip.Addr, error) { return p.inner.Addrs(ctx) }

// OpenAdapter opens a wrapped adapter.
func (p *Provider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	start := p.start()
	inner, err := p.inner.OpenAdapter(ctx, local)
	p.control(start, "open adapter", local, err)
	if err != nil {
		return nil, err
	}
	return &adapter{p: p, inner: inner}, nil
}

// start returns the time at which a traced call began.
func (p *Provider) start() time.Time {
	if p.cfg.Tracer == nil {
		return time.Time{}
	}
	return time.Now()
}

// namer names an object in events.
type namer interface{ String() string }

// control traces a completed call; object may be nil.
func (p *Provider) control(start time.Time, op string, object namer, err error) {
	if p.cfg.Tracer == nil {
		return
	}
	e := Controlled{Op: op, Took: time.Since(start), Err: err}
	if object != nil {
		e.Object = object.String()
	}
	p.cfg.Tracer.Event(e)
}

// close closes an object and traces the close.
func (p *Provider) close(what string, c interface{ Close() error }) error {
	start := p.start()
	err := c.Close()
	p.control(start, "close "+what, nil, err)
	return err
}
