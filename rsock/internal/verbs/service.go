package verbs

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"lwio/rdma"
)

// Service is a provider in use by the switch, on one address. Safe for concurrent
// use.
//
// Source: [WSD §2.3 WSPStartupEx]
type Service struct {
	provider rdma.Provider
	local    netip.Addr
	cfg      Config
	info     rdma.AdapterInfo
	opts     Options
	base     rdma.Adapter // of the listeners

	mu      sync.Mutex // guards the fields below
	closed  bool
	sockets map[*Socket]struct{} // open sockets
}

// StartupEx begins the use of a provider by a switch, on the address local. With the zero
// address the provider chooses. cfg may be nil, and is copied. In the interface of Windows,
// this function tells a provider that a switch is above it; here, the service has adapters
// for connections of the switch only. Cleanup ends the use.
//
// Errors: EADDRNOTAVAIL if the provider does not have the address, ENETDOWN if there
// is no device.
//
// Source: [WSD §2.3 WSPStartupEx]
func StartupEx(ctx context.Context, p rdma.Provider, local netip.Addr, cfg *Config) (*Service, error) {
	v := &Service{provider: p, local: local, sockets: make(map[*Socket]struct{})}
	if cfg != nil {
		v.cfg = *cfg
	}
	a, err := p.OpenAdapter(ctx, local)
	if err != nil {
		return nil, failed("startup", p.Name(), err)
	}
	v.base, v.info = a, a.Info()
	v.opts = optionsOf(&v.cfg, &v.info)
	return v, nil
}

// Name returns the fabric of the provider.
func (v *Service) Name() string { return v.provider.Name() }

// Options returns the options of the sockets of the service.
func (v *Service) Options() Options { return v.opts }

// Info describes the adapter.
func (v *Service) Info() rdma.AdapterInfo { return v.info }

// Socket returns an unconnected socket. The caller closes it.
//
// Errors: ENOTSOCK once the service is closed, ENOBUFS, ENETDOWN.
//
// Source: [WSD §2.1 WSPSocket]
func (v *Service) Socket(ctx context.Context) (*Socket, error) {
	s, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.build(), v.enter(s)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the adapter of a socket, which is its protection domain.
func (v *Service) open(ctx context.Context) (*Socket, error) {
	a, err := v.provider.OpenAdapter(ctx, v.local)
	if err != nil {
		return nil, failed("socket", v.Name(), err)
	}
	return newSocket(v, a), nil
}

// enter adds a socket that is complete.
func (v *Service) enter(s *Socket) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return &Error{Op: "socket", Object: v.Name(), Errno: ENOTSOCK}
	}
	v.sockets[s] = struct{}{}
	return nil
}

// forget removes a socket that is closed.
func (v *Service) forget(s *Socket) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.sockets, s)
}

// all returns the open sockets.
func (v *Service) all() []*Socket {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]*Socket, 0, len(v.sockets))
	for s := range v.sockets {
		all = append(all, s)
	}
	return all
}

// Cleanup closes all sockets, the listeners and the adapter. A second call does nothing.
//
// Source: [WSD §7 WSPCleanup]
func (v *Service) Cleanup() error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	var errs []error
	for _, s := range v.all() {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, v.base.Close())...)
}
