package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lwio/server"
)

// maxScrapers bounds the connections to the metrics, which need no password; further
// connections wait.
const maxScrapers = 64

// serveMetrics answers scrapes and probes on l, which it owns, until stop is called, which waits for open
// requests.
func serveMetrics(l net.Listener, srv *server.Server) (stop func() error) {
	state := &health{ready: srv.Ready()}
	h := metricsServer(state, collector{srv}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	done := make(chan error, 1)
	go func() { done <- h.Serve(limit(l, maxScrapers)) }()
	return func() error {
		state.draining.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := errors.Join(h.Shutdown(ctx), h.Close())
		if e := <-done; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}
}

// metricsServer answers with the metrics of the collectors, and the probes of state. A metric that fails hides no
// other, and idle connections are closed.
func metricsServer(state *health, all ...prometheus.Collector) *http.Server {
	reg := prometheus.NewRegistry()
	reg.MustRegister(all...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError,
	}))
	state.register(mux)
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
}

// limited is a listener that bounds its open connections.
type limited struct {
	net.Listener
	places chan struct{} // one for each open connection
	closed chan struct{}
	once   sync.Once
}

// limit bounds the connections of l to n at a time.
func limit(l net.Listener, n int) *limited {
	return &limited{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept waits for a place first.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: c, l: l}, nil
}

// Close ends Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn frees its place when it is closed.
type limitedConn struct {
	net.Conn
	l    *limited
	once sync.Once
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.l.places })
	return err
}
