package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lwio/server"
)

// labelled is a collector of one metric with a bad label, and one with a good one.
type labelled struct{ desc *prometheus.Desc }

func (l labelled) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

func (l labelled) Collect(ch chan<- prometheus.Metric) {
	o := output(ch)
	o.gauge(l.desc, 1, "no text: \xff")
	o.counter(l.desc, 1, "nor this: \xff")
	o.latency(l.desc, server.Histogram{}, "nor that: \xff")
	o.gauge(l.desc, 7, "text")
}

// A metric with a bad label does not end the process and does not hide another metric.
func TestBadLabelHidesNoOtherMetric(t *testing.T) {
	h := metricsServer(new(health), labelled{prometheus.NewDesc("some", "Some.", []string{"name"}, nil)})
	w := httptest.NewRecorder()
	h.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `some{name="text"} 7`) || strings.Contains(body, "no text") {
		t.Errorf("%d %s", w.Code, body)
	}
}

// pipes is a listener of pipes.
type pipes struct {
	accepted int
	conns    chan net.Conn
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		p.accepted++
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestLimit checks that a listener has no more connections than places, and that each
// closed connection frees one place, even if it is closed twice.
func TestConnectionLimitCountsCloseOnce(t *testing.T) {
	p := &pipes{conns: make(chan net.Conn, 3), closed: make(chan struct{})}
	for range cap(p.conns) {
		_, c := net.Pipe()
		p.conns <- c
	}
	l := limit(p, 1)
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if p.accepted == 2 {
			break // it stays open
		}
		_, _ = c.Close(), c.Close()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || p.accepted != 2 {
		t.Errorf("with no place left: %v, %d accepted", err, p.accepted)
	}
}

// TestIdleScraperIsCut checks that an idle connection is cut, with or without an earlier
// request.
func TestIdleScraperIsCut(t *testing.T) {
	for name, request := range map[string]string{"silent": "", "half a request": "GET /met", "kept alive": "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { idleScraper(t, request) })
		})
	}
}

func idleScraper(t *testing.T, request string) {
	p := &pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	h := metricsServer(new(health))
	done := make(chan error, 1)
	go func() { done <- h.Serve(limit(p, 1)) }()
	c, far := net.Pipe()
	defer c.Close()
	p.conns <- far
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if strings.HasSuffix(request, "\r\n\r\n") {
		r, err := http.ReadResponse(in, nil)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("it is still there after an hour: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
