package rsock

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"lwio/rsock/internal/verbs"
)

// servicePool holds the providers in use. Safe for concurrent use. mu is not held during
// calls of a provider.
type servicePool struct {
	cfg *Config

	mu    sync.Mutex // guards the fields below
	byKey map[serviceKey]*service
}

// serviceKey identifies a service.
type serviceKey struct {
	provider int // index in Config.Providers
	local    netip.Addr
}

// service is a provider in use on one address. It is closed when the last connection or
// listener on it ends.
type service struct {
	*verbs.Service
	pool  *servicePool
	key   serviceKey
	users int           // guarded by servicePool.mu
	done  chan struct{} // closed when the provider is open, or could not be opened
}

func (p *servicePool) init(cfg *Config) {
	p.cfg, p.byKey = cfg, make(map[serviceKey]*service)
}

// open returns the service of a provider on an address, and opens the provider if it is not
// open. The caller releases the service. Of concurrent calls one opens the provider; the
// other calls wait within their contexts. After a failure the next call tries again.
func (p *servicePool) open(ctx context.Context, f *fabric, local netip.Addr) (*service, error) {
	key := serviceKey{f.index, local}
	for {
		p.mu.Lock()
		s := p.byKey[key]
		if s == nil {
			s = &service{pool: p, key: key, done: make(chan struct{})}
			p.byKey[key] = s
			p.mu.Unlock()
			return s.start(ctx, f, local)
		}
		if s.isOpenLocked() {
			s.users++
			p.mu.Unlock()
			return s, nil
		}
		p.mu.Unlock()
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is being opened: %w", f.provider.Name(), context.Cause(ctx))
		}
	}
}

// start opens the provider, for one user.
func (s *service) start(ctx context.Context, f *fabric, local netip.Addr) (*service, error) {
	p := s.pool
	svc, err := verbs.StartupEx(ctx, f.provider, local, &verbs.Config{ReceiveDepth: p.cfg.ReceiveBuffers})
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(s.done)
	if err != nil {
		delete(p.byKey, s.key)
		return nil, err
	}
	s.Service, s.users = svc, 1
	return s, nil
}

// isOpenLocked reports whether the provider is open.
func (s *service) isOpenLocked() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// share adds a user.
func (s *service) share() *service {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.users++
	return s
}

// release removes a user, and closes the provider after the last.
func (s *service) release() {
	s.pool.mu.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(s.pool.byKey, s.key)
	}
	s.pool.mu.Unlock()
	if !last {
		return
	}
	if err := s.Cleanup(); err != nil {
		s.pool.cfg.Logger.Warn("rsock: closing a provider failed", "provider", s.Name(), "err", err)
	}
}
