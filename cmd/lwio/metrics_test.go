package main

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lwio"
)

// scrape asks for the metrics of a server.
func scrape(t *testing.T, s *testServer) string {
	t.Helper()
	url := regexp.MustCompile(`http://\S+`).FindString(s.log.String())
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, r.Status, err)
	}
	return string(b)
}

// TestMetrics copies a file and finds that in the metrics.
func TestMetrics(t *testing.T) {
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0")
	file := write(t, randomBytes(100_000), s.dir, "f")
	run(t, exitOK, "cp", "--require-rdma", s.url+"/f", filepath.Join(t.TempDir(), "copy"))
	text := scrape(t, s)
	for _, want := range []string{
		`lwio_bytes_total{op="read",share="data"} 100000`,
		`lwio_bytes_total{op="write",share="data"} 0`,
		`lwio_failures_total{share="data"} 0`,
		`lwio_latency_seconds_bucket{op="read",share="data",le="+Inf"} 1`,
		`lwio_rdma_connections_total{outcome="accepted"} 1`,
		`lwio_auth_failures_total{protocol="smb"} 0`,
		`lwio_credit_budget 8192`,
		`process_open_fds`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s after the copy of %s in\n%s", want, file, text)
		}
	}
}

// TestMetricsOfAConnection finds a client that is there.
func TestMetricsOfAConnection(t *testing.T) {
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0")
	c, err := lwio.Dial(t.Context(), s.url, &lwio.Config{RequireRDMA: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Create(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("four"), 0); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, s)
	for _, want := range []string{
		`lwio_connection_bytes_total\{client="[^"]+",connection="1",op="write",provider="\w+",user="lwio"\} 4`,
		`lwio_connection_files\{client="[^"]+",connection="1",provider="\w+",user="lwio"\} 1`,
		`lwio_connections\{kind="rdma"\} 1`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// An address that cannot be had ends the server with an error that says so.
func TestMetricsRefused(t *testing.T) {
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0")
	taken := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(s.log.String())
	r := run(t, exitFailure, "serve", "--listen", "127.0.0.1:0", "--metrics", taken, s.dir)
	if !strings.Contains(r.err, "metrics") || !strings.Contains(r.err, taken) {
		t.Errorf("it said %q", r.err)
	}
}
