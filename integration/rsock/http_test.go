package rsock

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// serveHTTP starts a server of the standard library that echoes bodies, behind TLS if
// asked for, and returns a client of it.
func (l *link) serveHTTP(start func(*httptest.Server)) (*http.Client, string) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 is
		w.Header().Set("Content-Type", "application/octet-stream")
		if _, err := io.Copy(w, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Listener.Close()
	srv.Listener = l.listen()
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tls, ok := c.(interface{ NetConn() net.Conn }); ok {
			c = tls.NetConn()
		}
		l.check(c)
		return ctx
	}
	start(srv)
	l.t.Cleanup(srv.Close)
	tr := srv.Client().Transport.(*http.Transport)
	tr.DialContext = l.dial
	tr.MaxIdleConnsPerHost = 64
	l.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, srv.URL
}

// echo sends a body and checks that it comes back.
func echo(ctx context.Context, c *http.Client, url string, body []byte, major int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK || resp.ProtoMajor != major:
		return fmt.Errorf("answer %s over %s", resp.Status, resp.Proto)
	case !bytes.Equal(got, body):
		return fmt.Errorf("%d bytes come back as %d others", len(body), len(got))
	}
	return nil
}

// TestHTTPBodiesOfAllSizes runs HTTP/1.1, TLS and HTTP/2 with bodies of all sizes, one after
// the other and on 32 connections at a time.
func TestHTTPBodiesOfAllSizes(t *testing.T) {
	for _, c := range []struct {
		name  string
		major int
		start func(*httptest.Server)
	}{
		{"1.1", 1, (*httptest.Server).Start},
		{"TLS", 1, (*httptest.Server).StartTLS},
		{"2", 2, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			onAll(t, func(t *testing.T, l *link) {
				client, url := l.serveHTTP(c.start)
				body := make([]byte, 8<<20)
				_, _ = rand.Read(body)
				for _, size := range []int{0, 1, 1000, 16 << 10, 64 << 10, 1 << 20, len(body)} {
					if err := echo(l.ctx(), client, url, body[:size], c.major); err != nil {
						t.Fatalf("body of %d bytes: %v", size, err)
					}
				}
				var wg sync.WaitGroup
				errs := make([]error, 32)
				for i := range errs {
					wg.Go(func() {
						for k := range 20 {
							size := (16 << 10) + i*997 + k
							if err := echo(l.ctx(), client, url, body[i:i+size], c.major); err != nil {
								errs[i] = fmt.Errorf("client %d, request %d: %w", i, k, err)
								return
							}
						}
					})
				}
				wg.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
