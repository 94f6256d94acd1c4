package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lwio"
	"lwio/server"
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

// A copied file shows in the metrics.
func TestMetricsCountCopiedFile(t *testing.T) {
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
		`lwio_charged_limit{resource="rdma_write_memory_bytes"} 5.36870912e+08`,
		`lwio_charged{resource="registrations"} 0`, `lwio_charged_limit{resource="registrations"} 65536`,
		`lwio_charged_user{resource="open_files"} 0`, `lwio_charged_user_limit{resource="locks"} 49152`,
		`lwio_auth_failures_total{protocol="lwio"} 0`, `lwio_auth_limited_total 0`, `lwio_bad_signatures_total 0`,
		`lwio_rdma_connections_total{outcome="lost"} 0`, `lwio_rdma_connections_total{outcome="rejected"} 0`,
		`lwio_smb_connections_total{outcome="accepted"} 1`, `lwio_smb_connections_total{outcome="refused"} 0`,
		`lwio_smb_operations_total{op="read"} 0`, `lwio_smb_bytes_total{op="write"} 0`,
		`lwio_queue_depth{pool="read"} 0`, `lwio_queue_depth{pool="write"} 0`, `lwio_queue_depth{pool="sync"} 0`,
		`lwio_file_calls_total 0`, `lwio_file_call_failures_total 0`, `lwio_file_syncs_total 0`,
		`lwio_charged_limit{resource="smb_memory_bytes"} 2.68435456e+08`, `lwio_charged{resource="rdma_read_memory_bytes"} 0`,
		`lwio_charged{resource="orphaned_opens"} 0`, `lwio_charged_user_limit{resource="orphaned_opens"} 12288`,
		`lwio_state_failing 0`, `lwio_write_log_failing 0`,
		`lwio_suspended_sessions 0`, `lwio_resumed_sessions_total 0`, `lwio_orphaned_opens_total{outcome="expired"} 0`,
		`lwio_unreported_connections 0`, `lwio_charged_limit{resource="open_files"} `,
		`process_open_fds`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s after the copy of %s in\n%s", want, file, text)
		}
	}
}

// TestMetricsOfAConnection finds the series of a connected client.
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
	if err := f.TryLock(t.Context(), lwio.Range{Len: 10}, lwio.LockShared); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, s)
	for _, want := range []string{
		`lwio_connection_bytes_total\{client="[^"]+",connection="1",op="write",provider="\w+",user="lwio"\} 4`,
		`lwio_connection_latency_seconds_count\{client="[^"]+",connection="1",op="write",provider="\w+",user="lwio"\} 1`,
		`lwio_connection_latency_seconds_count\{client="[^"]+",connection="1",op="read",provider="\w+",user="lwio"\} 0`,
		`lwio_connection_files\{client="[^"]+",connection="1",provider="\w+",user="lwio"\} 1`,
		`lwio_connection_queue_depth\{client="[^"]+",connection="1",provider="\w+",user="lwio"\} 0`,
		`lwio_connection_credits\{client="[^"]+",connection="1",provider="\w+",user="lwio"\} [1-9]`,
		`lwio_provider_connections\{provider="\w+"\} 1`,
		`lwio_charged\{resource="open_files"\} 1`, `lwio_charged\{resource="locks"\} 1`, `lwio_charged_limit\{resource="locks"\} 65536`,
		`lwio_waiting_locks 0`, `lwio_lock_waits_total 0`,
		`lwio_leases 0`, `lwio_lease_breaks_total 0`, `lwio_leases_revoked_total 0`,
		`lwio_connections\{kind="rdma"\} 1`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestMetricsOfTrouble finds wrong passwords, I/O over SMB, and a name that SMB cannot carry.
func TestMetricsOfTrouble(t *testing.T) {
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0")
	write(t, randomBytes(1000), s.dir, "f")
	write(t, nil, s.dir, "a:b")
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	wrong := *u
	wrong.User = url.UserPassword("mallory", "wrong")
	for range 3 {
		run(t, exitFailure, "ls", wrong.String())
	}
	run(t, exitOK, "cat", s.url+"/f?provider=smb")
	run(t, exitOK, "ls", s.url)
	text := scrape(t, s)
	for _, want := range []string{
		`lwio_auth_failures_total{protocol="smb"} 3`,
		`lwio_smb_operations_total{op="read"} 1`, `lwio_smb_bytes_total{op="read"} 1000`,
		`lwio_skipped_entries_total 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// many is a collector of many connections.
type many []server.ConnectionStats

func (m many) Describe(chan<- *prometheus.Desc)    {} // unchecked
func (m many) Collect(ch chan<- prometheus.Metric) { output(ch).connections(m) }

// The number of connections with series of their own is bounded.
func TestMetricsAreBounded(t *testing.T) {
	all := make(many, 10*maxSeries)
	for i := range all {
		all[i] = server.ConnectionStats{ID: uint64(i), Client: fmt.Sprint(i), User: "u", Provider: []string{"shm", "iwarp"}[i%2]}
	}
	w := httptest.NewRecorder()
	metricsServer(new(health), all).Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	reported := make(map[string]bool)
	for _, m := range regexp.MustCompile(`connection="(\d+)"`).FindAllStringSubmatch(text, -1) {
		reported[m[1]] = true
	}
	if len(reported) != maxSeries {
		t.Errorf("series of %d connections", len(reported))
	}
	for _, want := range []string{
		`lwio_provider_connections{provider="shm"} 1280`, `lwio_provider_connections{provider="iwarp"} 1280`,
		`lwio_unreported_connections 2304`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// An unusable address ends the server with an error that names it.
func TestBadMetricsAddressEndsTheServer(t *testing.T) {
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0")
	taken := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(s.log.String())
	r := run(t, exitFailure, "serve", "--listen", "127.0.0.1:0", "--metrics", taken, s.dir)
	if !strings.Contains(r.err, "metrics") || !strings.Contains(r.err, taken) {
		t.Errorf("it said %q", r.err)
	}
}
