package rsock

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// rdmaListeners are the RDMA listeners of a Listener. They follow the addresses of the
// providers. Safe for concurrent use, except openAll.
//
// Source: [WSD §1], [WSD §3.2]
type rdmaListeners struct {
	l       *Listener
	backlog int
	dual    bool           // the TCP listener takes both families
	logged  map[int]string // by provider: the logged reason for having no address; openAll uses it

	mu   sync.Mutex // guards the fields below
	list []*rdmaListener
}

// addrs returns the addresses of the listeners.
func (s *rdmaListeners) addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]net.Addr, len(s.list))
	for i, r := range s.list {
		list[i] = r.at.at
	}
	return list
}

// close closes the listeners. Precondition: the context of the Listener has ended, so that
// no listener is added.
func (s *rdmaListeners) close() error {
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	var errs []error
	for _, r := range list {
		errs = append(errs, r.listener.Close())
	}
	return errors.Join(errs...)
}

// openAll opens a listener at each endpoint that has none, and closes the listeners without
// an endpoint. It returns the failures, each about one listener. One goroutine calls it at a
// time.
func (s *rdmaListeners) openAll(ctx context.Context) (failed []error) {
	router := s.l.router
	table, err := router.subnets.latest(ctx)
	if err != nil {
		return []error{err}
	}
	s.logUnusable(table)
	wanted := table.listenEndpoints(&router.cfg, s.l.addr, s.dual)
	kept, gone := s.split(wanted)
	for _, r := range gone {
		if err := r.listener.Close(); err != nil {
			failed = append(failed, err)
		}
		router.cfg.Logger.Info("rsock: RDMA listener closed, its address is gone", "provider", r.service.Name(), "addr", &r.at)
	}
	for _, e := range wanted {
		if slices.ContainsFunc(kept, func(r *rdmaListener) bool { return r.at.equal(e) }) {
			continue
		}
		if err := s.open(ctx, e); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// logUnusable logs the providers without addresses and the reasons, each reason once.
func (s *rdmaListeners) logUnusable(table *subnetTable) {
	before := s.logged
	s.logged = make(map[int]string)
	for _, f := range table.fabrics {
		if f.err == nil {
			continue
		}
		s.logged[f.index] = f.err.Error()
		if before[f.index] != s.logged[f.index] {
			s.l.router.cfg.Logger.Warn("rsock: no RDMA listener", "provider", f.provider.Name(), "err", f.err)
		}
	}
}

// split keeps the listeners at wanted endpoints, and removes all others. The caller closes
// the removed listeners.
func (s *rdmaListeners) split(wanted []endpoint) (kept, gone []*rdmaListener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.l.ctx.Err() != nil {
		return s.list, nil
	}
	for _, r := range s.list {
		if r.gone = !slices.ContainsFunc(wanted, r.at.equal); r.gone {
			gone = append(gone, r)
		} else {
			kept = append(kept, r)
		}
	}
	s.list = slices.Clone(kept)
	return kept, gone
}

// open listens at an endpoint and begins to accept connections, unless the Listener is closed
// meanwhile.
func (s *rdmaListeners) open(ctx context.Context, e endpoint) error {
	name := e.fabric.provider.Name()
	svc, err := s.l.router.services.open(ctx, &e.fabric, e.local)
	if err != nil {
		return &Error{Op: "listen", Provider: name, Object: e.String(), Err: err}
	}
	vl, err := svc.Listen(ctx, e.at, s.backlog)
	if err != nil {
		svc.release()
		return &Error{Op: "listen", Provider: name, Object: e.String(), Err: err}
	}
	r := &rdmaListener{l: s.l, at: e, service: svc, listener: vl}
	s.mu.Lock()
	closed := s.l.ctx.Err() != nil
	if !closed {
		s.list = append(s.list, r)
		s.l.wg.Go(r.run)
	}
	s.mu.Unlock()
	if closed {
		err = vl.Close()
		svc.release()
	}
	return err
}

// settleTime is how long a listener waits after a change of the addresses before it reads
// them, because changes come in bursts.
const settleTime = 50 * time.Millisecond

// follow opens listeners on new addresses, and tries the listeners again that could not
// listen. It returns when the Listener is closed.
func (s *rdmaListeners) follow() {
	router := s.l.router
	tick := time.NewTicker(router.cfg.RefreshInterval)
	defer tick.Stop()
	changed, stop, err := router.cfg.watch()
	if err != nil {
		router.cfg.Logger.Warn("rsock: address changes are noticed with a delay", "delay", router.cfg.RefreshInterval, "err", err)
	} else {
		defer stop()
		router.subnets.invalidate() // an address may have changed before the watch began
		s.renew()
	}
	for {
		select {
		case <-tick.C:
		case <-changed:
			select {
			case <-time.After(settleTime):
			case <-s.l.closing:
				return
			}
			router.subnets.invalidate()
		case <-s.l.closing:
			return
		}
		s.renew()
	}
}

// renew is openAll after start. It logs the failures.
func (s *rdmaListeners) renew() {
	for _, err := range s.openAll(s.l.ctx) {
		s.l.router.cfg.Logger.Debug("rsock: no RDMA listener", "addr", s.l.Addr(), "err", err)
	}
}
