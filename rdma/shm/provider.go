package shm

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"

	"lwio/internal/ratelimit"
	"lwio/rdma"
)

// Provider opens adapters of the fabric inside this host. Safe for concurrent use. On
// systems other than Linux it opens none.
//
// Source: [ND Provider]
type Provider struct {
	cfg      Config
	adapters atomic.Uint64 // number of opened adapters
	scratch  sync.Pool     // *[probeSize]byte
	mapped   mapped        // by all connections
	users    users
	foreign  foreign
	noise    ratelimit.Log // for log lines that any peer can cause
}

// mapped counts the mapped memory of peers, in bytes. Safe for concurrent use.
type mapped struct {
	most int64
	now  atomic.Int64
}

// take adds n bytes, or returns false if they exceed the limit.
func (m *mapped) take(n int64) bool {
	if m.now.Add(n) <= m.most {
		return true
	}
	m.now.Add(-n)
	return false
}

func (m *mapped) give(n int64) { m.now.Add(-n) }

var _ rdma.Provider = (*Provider)(nil)

// probeSize is the number of bytes of a file that one read of a probe covers.
const probeSize = 64 << 10

// New makes a provider; cfg may be nil and is copied.
func New(cfg *Config) *Provider {
	p := &Provider{cfg: withDefaults(cfg)}
	p.mapped.most = p.cfg.MaxMappedMemory
	return p
}

// Name is "shm". [OP-38b]
func (p *Provider) Name() string { return Name }

// Addrs returns no address: the fabric has no IP addresses.
func (p *Provider) Addrs(ctx context.Context) ([]netip.Addr, error) {
	if ctx.Err() != nil {
		return nil, rdma.CanceledBy(ctx, "shm: list addresses", "")
	}
	return nil, nil
}
