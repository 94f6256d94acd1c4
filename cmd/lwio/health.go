package main

import (
	"net/http"
	"sync/atomic"
)

// health answers the probes of supervisors, load balancers and Kubernetes, without a password and without a
// name. Safe for concurrent use.
type health struct {
	// ready is closed once the server accepts clients.
	ready <-chan struct{}
	// draining is true once the server accepts no more clients.
	draining atomic.Bool
}

// register adds the paths of the probes. A process that answers is live; it is ready while it accepts clients.
func (h *health) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { h.answerReady(w) })
}

// answerReady answers a probe of readiness.
func (h *health) answerReady(w http.ResponseWriter) {
	select {
	case <-h.ready:
	default:
		reply(w, http.StatusServiceUnavailable, "starting")
		return
	}
	if h.draining.Load() {
		reply(w, http.StatusServiceUnavailable, "draining")
		return
	}
	reply(w, http.StatusOK, "ok")
}

// reply sends one line of text that no cache keeps.
func reply(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line + "\n")) // a peer that has left needs no answer
}
