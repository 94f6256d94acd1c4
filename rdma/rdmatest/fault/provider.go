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
	// Tracer gets the events; nil for none.
	Tracer Tracer
	// Fault decides about every request that is not a receive; nil lets all
	// pass. It is called in the goroutine that posts, for one request of a queue
	// pair at a time. While it blocks, the request and those after it on the
	// same queue pair are delayed, and so are their posts.
	Fault func(Attempt) Action
	// Shuffle, unless 0, is a seed for a random order of events without an order by the
	// rules: results of different queue pairs, and of receives and other requests of
	// one, that a Poll finds together; and writes to different places that one call
	// posts. The adapters then do not claim
	// CapInOrderPlacement, and a write that fails may be another of the same call
	// than the one whose result says so.
	Shuffle uint64
}

// numbered reports whether requests are numbered, so that results lead back to them.
func (c *Config) numbered() bool { return c.Fault != nil || c.Shuffle != 0 }

// Provider wraps a provider. Safe for concurrent use.
type Provider struct {
	inner         rdma.Provider
	cfg           Config
	pairs, queues atomic.Uint64 // made so far
	count         counters
}

var _ rdma.Provider = (*Provider)(nil)

// Wrap wraps a provider; cfg may be nil.
func Wrap(inner rdma.Provider, cfg *Config) *Provider {
	h := &Provider{inner: inner}
	if cfg != nil {
		h.cfg = *cfg
	}
	return h
}

// Name is the name of the wrapped provider.
func (h *Provider) Name() string { return h.inner.Name() }

// Addrs lists the addresses of the wrapped provider.
func (h *Provider) Addrs(ctx context.Context) ([]netip.Addr, error) { return h.inner.Addrs(ctx) }

// OpenAdapter opens a wrapped adapter.
func (h *Provider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	start := h.start()
	inner, err := h.inner.OpenAdapter(ctx, local)
	h.control(start, "open adapter", local, err)
	if err != nil {
		return nil, err
	}
	return &adapter{h: h, inner: inner}, nil
}

// start is the time at which a traced call began.
func (h *Provider) start() time.Time {
	if h.cfg.Tracer == nil {
		return time.Time{}
	}
	return time.Now()
}

// namer has the name of an object for events.
type namer interface{ String() string }

// control traces a call that is over; object may be nil.
func (h *Provider) control(start time.Time, op string, object namer, err error) {
	if h.cfg.Tracer == nil {
		return
	}
	e := Controlled{Op: op, Took: time.Since(start), Err: err}
	if object != nil {
		e.Object = object.String()
	}
	h.cfg.Tracer.Event(e)
}

// close closes an object and traces that.
func (h *Provider) close(what string, c interface{ Close() error }) error {
	start := h.start()
	err := c.Close()
	h.control(start, "close "+what, nil, err)
	return err
}
