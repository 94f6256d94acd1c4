package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/cmd/lwio/internal/bench"
)

// Every pattern is measured over every transport, in a directory of a server, with all bytes
// verified, and no file is left.
func TestBenchPatternsOverTransports(t *testing.T) {
	s := startServer(t, t.TempDir())
	if err := os.Mkdir(filepath.Join(s.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	transports := []string{lwio.TransportSMB}
	for _, p := range lwio.DefaultProviders() {
		transports = append(transports, p.Name())
	}
	for _, provider := range transports {
		for _, rw := range []string{"randread", "randwrite", "randrw", "read", "write", "rw"} {
			r := run(t, exitOK, "bench", "--json", "--verify", "--rw", rw, "--bs", "8k", "--size", "1m", "--iodepth", "4", "--numjobs", "2",
				"--runtime", "50ms", "--provider", provider, s.url+"/sub")
			var rows []map[string]any
			if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) != 1 {
				t.Fatalf("%v: %s", err, r.out)
			}
			completion := "adaptive"
			if provider == lwio.TransportSMB {
				completion = ""
			}
			if m := rows[0]; m["provider"] != provider || m["completion"] != completion || m["rw"] != rw || m["iops"].(float64) <= 0 || m["errors"] != 0.0 {
				t.Errorf("%v", m)
			}
			wantNames(t, filepath.Join(s.dir, "sub"))
		}
	}
}

// Every engine does its operations, and names itself in the report.
func TestEachBenchEngineNamesItself(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, provider := range transports() {
		for _, args := range [][]string{
			{"--ioengine", "sync"}, {"--ioengine", "batch"}, {"--ioengine", "vec"},
			{"--ioengine", "batch", "--iodepth-batch-complete", "4"}, {"--ioengine", "batch", "--gtod-reduce"},
		} {
			r := run(t, exitOK, append([]string{
				"bench", "--json", "--verify", "--rw", "randrw", "--rwmixread", "60", "--bs", "4k", "--size", "1m",
				"--iodepth", "4", "--ramp-time", "5ms", "--runtime", "30ms", "--provider", provider, s.url,
			}, args...)...)
			var rows []map[string]any
			if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) != 1 {
				t.Fatalf("%v: %s", err, r.out)
			}
			if m := rows[0]; m["ioengine"] != args[1] || m["operations"].(float64) <= 0 || m["errors"] != 0.0 || (m["latency_us"] == nil) != (len(args) == 3) {
				t.Errorf("%s %v: %v", provider, args, m)
			}
		}
	}
	wantNames(t, s.dir)
}

// A file is written with --overwrite only, by its URL or its path, and the CPU of a server on
// this host is measured by its process.
func TestBenchOverwritesNamedFile(t *testing.T) {
	s := startServer(t, t.TempDir())
	content := make([]byte, 100_000)
	file := write(t, content, s.dir, "f")
	for _, name := range []string{s.url + "/f", file} {
		run(t, exitUsage, "bench", "--rw", "randwrite", "--runtime", "5ms", name)
		run(t, exitUsage, "bench", "--rw", "randwrite", "--runtime", "5ms", "--overwrite", "--verify", name)
		wantFile(t, file, content)
		r := run(t, exitOK, "bench", "--json", "--rw", "randwrite", "--overwrite", "--runtime", "5ms", "--server-pid", strconv.Itoa(os.Getpid()), name)
		if strings.Contains(r.out, `"server_cpu_us_per_op": null`) {
			t.Errorf("%s: %s", name, r.out)
		}
		if got, err := os.ReadFile(file); err != nil || len(got) != len(content) || bytes.Equal(got, content) {
			t.Errorf("%s: the file has %d bytes, %v", name, len(got), err)
		}
		write(t, content, s.dir, "f")
	}
	run(t, exitFailure, "bench", file+"x")
	run(t, exitUsage, "bench", t.TempDir())
	run(t, exitUsage, "bench", "--provider", "shm", file)
}

// A named file is read, and not written.
func TestBenchReadsNamedFile(t *testing.T) {
	s := startServer(t, t.TempDir())
	content := randomBytes(100_000)
	file := write(t, content, s.dir, "f")
	plot := filepath.Join(t.TempDir(), "plot.svg")
	r := run(t, exitOK, "bench", "--runtime", "50ms", "--plot", plot, s.url+"/f")
	if !strings.Contains(r.out, "randread, blocks of 4k, 32 in flight") || strings.Contains(r.out, "local") {
		t.Errorf("it printed %s", r.out)
	}
	if svg, err := os.ReadFile(plot); err != nil || !strings.HasPrefix(string(svg), "<svg") {
		t.Errorf("the plot: %v", err)
	}
	r = run(t, exitOK, "bench", "--json", "--runtime", "50ms", s.url+"/f?completion=interrupt")
	if !strings.Contains(r.out, `"completion": "interrupt"`) {
		t.Errorf("the URL's completion: %s", r.out)
	}
	r = run(t, exitFailure, "bench", s.url+"none/f")
	if !strings.HasPrefix(r.err, "lwio: dial ") || strings.Count(r.err, "lwio: ") != 1 {
		t.Errorf("message %q", r.err)
	}
	run(t, exitOK, "bench", "--runtime", "5ms", "--size", "1k", s.url+"/f") // which is about scratch files
	run(t, exitUsage, "bench", "--runtime", "5ms", "--size", "1k", s.url)
	run(t, exitUsage, "bench", "--rw", "write", s.url+"/f")
	run(t, exitUsage, "bench", "--verify", s.url+"/f")
	run(t, exitFailure, "bench", s.url+"/none")
	run(t, exitUsage, "bench", "--compare", "--local", file, s.url)
	run(t, exitUsage, "bench", "--compare", "--local", write(t, content[1:], t.TempDir(), "f"), s.url+"/f")
	run(t, exitFailure, "bench", "--compare", "--local", file+"x", s.url+"/f")
	r = run(t, exitOK, "bench", "--compare", "--rounds", "1", "--runtime", "5ms", "--local", file, s.url+"/f")
	if !strings.Contains(r.out, "local") {
		t.Errorf("the local file: %s", r.out)
	}
	wantFile(t, file, content)
}

func TestBenchRefusesUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--rw", "trim"}, {"--bs", "x"}, {"--bs", "0"}, {"--iodepth", "0"}, {"--numjobs", "0"}, {"--runtime", "0s"}, {"--rounds", "0"},
		{"--size", "1k"}, {"--completion", "x", "lwio://a:b@h/s"}, {"--provider", "x", "lwio://a:b@h/s"}, {"--pin", "lwio://a:b@h/s"},
		{"--compare", "--provider", "smb"}, {"--compare", "--completion", "polling", "lwio://a:b@h/s"}, {"a", "b"}, {"http://x"},
		{"--compare", "lwio://a:b@h/s?provider=shm"}, {"--compare", "lwio://a:b@h/s?completion=polling"},
		{"--rounds", "2"}, {"--rwmixread", "101"}, {"--ioengine", "x"}, {"--ramp-time", "-1s"}, {"--iodepth-batch-complete", "33"},
		{"--overwrite"}, {"--server-pid", "1"}, {"--dir", ".", "lwio://a:b@h/s"}, {"--local", "f", "lwio://a:b@h/s"}, {"--local", "f", "--compare"},
	} {
		run(t, exitUsage, append([]string{"bench"}, args...)...)
	}
}

// A comparison starts a server of its own. It leaves no file behind, even when it is
// interrupted.
func TestBenchCompareTransports(t *testing.T) {
	t.Setenv(asCommand, "1")
	dir := t.TempDir()
	r := run(t, exitOK, "bench", "--compare", "--json", "--rounds", "1", "--runtime", "30ms", "--size", "1m", "--dir", dir)
	var rows []map[string]any
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	seen := make(map[string]bool)
	for _, m := range rows {
		seen[m["provider"].(string)] = true
		if m["iops"].(float64) <= 0 || m["failure"] != nil {
			t.Errorf("%v", m)
		}
	}
	for _, name := range []string{"local", "iwarp", "smb"} {
		if !seen[name] {
			t.Errorf("%s was not measured: %v", name, rows)
		}
	}
	wantNames(t, dir)

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if r := runCommand(ctx, strings.NewReader(""), "bench", "--runtime", "1h", "--size", "1m", "--dir", dir); r.code != exitFailure {
		t.Errorf("interrupted: exit status %d, %s", r.code, r.err)
	}
	wantNames(t, dir)
}

// A plot that cannot be written is refused before the measurement. If the measurement
// fails, an old plot stays, and no new file.
func TestBenchPlotThatCannotBeWritten(t *testing.T) {
	s := startServer(t, t.TempDir())
	write(t, randomBytes(100_000), s.dir, "f")
	dir := t.TempDir()
	r := run(t, exitFailure, "bench", "--runtime", "5ms", "--plot", filepath.Join(dir, "none", "p.svg"), s.url+"/f")
	if r.out != "" || !strings.Contains(r.err, "lwio: bench: create "+filepath.Join(dir, "none", "p.svg")) {
		t.Errorf("it printed %q, and %q", r.out, r.err)
	}
	plot := write(t, []byte("before"), dir, "p.svg")
	run(t, exitFailure, "bench", "--plot", plot, s.url+"/none")
	wantNames(t, dir, "p.svg")
	wantFile(t, plot, []byte("before"))
	run(t, exitOK, "bench", "--runtime", "5ms", "--plot", plot, s.url+"/f")
	wantNames(t, dir, "p.svg")
	if svg, err := os.ReadFile(plot); err != nil || !strings.HasPrefix(string(svg), "<svg") {
		t.Errorf("the plot: %v", err)
	}
}

// fullDisk is a file on which every write fails.
type fullDisk struct{ pendingFile }

func (fullDisk) WriteChunk(context.Context, []byte, int64) error { return syscall.ENOSPC }

// A plot that does not fit on the disk gets no name.
func TestBenchPlotOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	plot, err := (localTree{}).Create(t.Context(), filepath.Join(dir, "p.svg"))
	if err != nil {
		t.Fatal(err)
	}
	j := &bench.Job{Pattern: bench.RandRead, BlockSize: 512, FileSize: 512, Depth: 1, Jobs: 1}
	err = benchRun{app: &app{stdout: io.Discard}}.report(t.Context(), fullDisk{plot}, j, nil)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the report ended with %v", err)
	}
	if err := plot.Abort(err); err != nil {
		t.Error(err)
	}
	wantNames(t, dir)
}
