package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
)

// A server is ready from the time at which it accepts clients until it drains, and live all the time.
func TestReadyWhileClientsAreAccepted(t *testing.T) {
	accepts := make(chan struct{})
	h := &health{ready: accepts}
	s := metricsServer(h)
	probe := func(path string, code int, line string) {
		t.Helper()
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code || w.Body.String() != line+"\n" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %q %v", path, w.Code, w.Body, w.Header())
		}
	}
	probe("/livez", http.StatusOK, "ok")
	probe("/readyz", http.StatusServiceUnavailable, "starting")
	close(accepts)
	probe("/readyz", http.StatusOK, "ok")
	h.draining.Store(true)
	probe("/readyz", http.StatusServiceUnavailable, "draining")
	probe("/livez", http.StatusOK, "ok")
}

// The address of the metrics answers probes.
func TestServeAnswersProbes(t *testing.T) {
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0")
	address := regexp.MustCompile(`http://[0-9.:]+`).FindString(s.log.String())
	for _, path := range []string{"/livez", "/readyz"} {
		r, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || string(body) != "ok\n" {
			t.Errorf("%s: %s %q, %v", path, r.Status, body, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
