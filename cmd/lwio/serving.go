package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"lwio/cmd/lwio/internal/sockets"
	"lwio/cmd/lwio/internal/systemd"
	"lwio/server"
)

// serving is a run of serve: a server, and after a hand-over that failed another one.
type serving struct {
	app         *app
	o           *serveOptions
	config      server.Config
	service     *service
	log         serveLog
	audit       *auditFile // nil without an audit log of its own
	sockets     sockets.Set
	supervisor  *systemd.Supervisor
	predecessor *predecessor   // nil if this process takes over from none
	handOvers   chan os.Signal // requests of a hand-over
	printed     []string       // lines of standard output, of this process and those before
}

// awaitSignals receives requests of a hand-over until stop is called.
func (s *serving) awaitSignals() (stop func()) {
	s.handOvers = make(chan os.Signal, 1)
	notifyHandOvers(s.handOvers)
	return func() { signal.Stop(s.handOvers) }
}

// run serves until ctx ends, or another process has taken over. A process that takes over first waits
// for the end of the server of its predecessor.
func (s *serving) run(ctx context.Context) error {
	if s.predecessor != nil {
		s.printed = s.predecessor.printed
		if err := s.predecessor.await(ctx); err != nil {
			return err
		}
	}
	if s.o.InsecureNetwork && s.config.Encryption != server.EncryptionRequired {
		_ = s.print(s.app.stderr, "warning: --insecure-network: others on the network can read all data of clients that do not encrypt, and change data of RDMA unnoticed")
	}
	for {
		next, err := s.serve(ctx)
		if next == nil {
			return err
		}
		if err != nil {
			s.log.Warn("hand-over: the server has not ended in good order", "error", err)
		}
		if err = next.takeOver(ctx); err == nil {
			s.warn(s.supervisor.Succeeded(next.pid()))
			s.log.Info("hand-over: done", "process", next.pid())
			if ctx.Err() != nil {
				return next.interrupt() // this process was to end, not the successor
			}
			return nil
		}
		s.log.Error("hand-over: the new process has failed; this one goes on", "error", err)
		s.warn(s.supervisor.Ready())
		s.sockets.Reuse()
	}
}

// serve runs a server until ctx ends, or until a successor waits for its end.
func (s *serving) serve(ctx context.Context) (next *successor, err error) {
	config := s.config
	config.RequireState = s.predecessor != nil // which can use it
	srv, err := server.New(config)
	if err != nil {
		return nil, err
	}
	l, err := s.sockets.TCP(ctx, "smb", s.o.Listen)
	if err != nil {
		return nil, errors.Join(err, srv.Close())
	}
	r := &running{serving: s, srv: srv, done: make(chan error, 1)}
	go func() { r.done <- srv.Serve(context.WithoutCancel(ctx), l) }()
	defer func() { err = errors.Join(err, r.close()) }()
	select {
	case <-srv.Ready():
	case err := <-r.done:
		r.done <- nil
		return nil, err
	}
	if err := r.startMetrics(ctx); err != nil {
		return nil, err
	}
	if reload := s.service.reload; reload != nil {
		reload.server, reload.supervisor = srv, s.supervisor
		defer reload.start(ctx)()
	}
	if err := s.announce(l.Addr()); err != nil {
		return nil, err
	}
	gone := s.report()
	defer gone.stop()
	return r.wait(ctx, gone.ended)
}

// announce prints the URL of each share, unless an earlier process has. Without it the user does not know
// port and password.
func (s *serving) announce(addr net.Addr) error {
	for _, share := range s.service.shares {
		if err := s.print(s.app.stdout, shareURL(s.service.shown, addr, share.Name)); err != nil {
			return err
		}
	}
	return nil
}

// print prints a line once.
func (s *serving) print(to io.Writer, line string) error {
	if slices.Contains(s.printed, line) {
		return nil
	}
	s.printed = append(s.printed, line)
	_, err := fmt.Fprintln(to, line)
	return err
}

// report tells the predecessor or the supervisor that the server is ready. The supervisor gets the sockets
// that this process has made; while there is a predecessor, it takes none from this process.
func (s *serving) report() *departure {
	for _, name := range s.sockets.DropUnused() {
		s.warn(s.supervisor.Unstore(name))
	}
	p := s.predecessor
	s.predecessor = nil
	if p == nil {
		s.store()
		s.warn(s.supervisor.Ready())
		return &departure{}
	}
	return p.leave()
}

// store gives the sockets to the supervisor, so that they outlive this process.
func (s *serving) store() {
	for _, h := range s.sockets.Made() {
		s.warn(s.supervisor.Store(h.Name, h.File))
	}
}

// warn logs that the supervisor was not notified.
func (s *serving) warn(err error) {
	if err != nil {
		s.log.Warn("the supervisor is not notified", "error", err)
	}
}

// prepare starts a successor and waits until it is ready to take over; nil if there is none.
func (r *running) prepare(ctx context.Context) *successor {
	s := r.serving
	if s.o.State == "" || r.srv.Stats().StateFailing {
		s.log.Error("hand-over: clients would lose their open files without --state, or with a state that fails")
		return nil
	}
	s.warn(s.supervisor.Reloading())
	next, err := startSuccessor(ctx, &s.sockets, s.printed)
	if err != nil {
		s.log.Error("hand-over: the new process has failed; this one goes on", "error", err)
		s.warn(s.supervisor.Ready())
	}
	return next
}

// running is a server with its metrics.
type running struct {
	*serving
	srv     *server.Server
	done    chan error   // the result of Serve
	metrics func() error // ends the metrics; nil without metrics
}

// startMetrics answers scrapes.
func (r *running) startMetrics(ctx context.Context) error {
	if r.o.Metrics == "" {
		return nil
	}
	l, err := r.sockets.TCP(ctx, "metrics", r.o.Metrics)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	r.metrics = serveMetrics(l, r.srv)
	return r.print(r.app.stderr, fmt.Sprintf("metrics: http://%s/metrics", l.Addr()))
}

// wait serves until ctx ends, or until a successor is ready, and then drains the server.
func (r *running) wait(ctx context.Context, predecessor <-chan struct{}) (next *successor, err error) {
	for next == nil && ctx.Err() == nil {
		select {
		case err := <-r.done:
			r.done <- nil
			return nil, err
		case <-predecessor:
			predecessor = nil
			r.store()
		case <-r.handOvers:
			next = r.prepare(ctx)
		case <-ctx.Done():
		}
	}
	begun := time.Now()
	if next == nil {
		r.warn(r.supervisor.Stopping())
		r.sockets.Close() // a supervisor has its own descriptors
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	var metrics sync.WaitGroup
	var failed error
	if r.metrics != nil {
		metrics.Go(func() { failed = r.metrics() })
	}
	err = r.srv.Shutdown(drain)
	metrics.Wait()
	r.metrics = nil
	r.log.Debug("server drained", "time", time.Since(begun))
	return next, errors.Join(err, failed)
}

// close ends the server, and waits for it.
func (r *running) close() error {
	var err error
	if r.metrics != nil {
		err = r.metrics()
	}
	return errors.Join(err, r.srv.Close(), <-r.done)
}
