package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio"
	"lwio/internal/pmqos"
)

// A server that is asked for it keeps CPUs awake while there is I/O, and says so; where that
// cannot be had it does not start, and says why.
func TestServeCPULatency(t *testing.T) {
	if err := probe(); err != nil {
		r := run(t, exitFailure, "serve", "--listen", "127.0.0.1:0", "--cpu-latency", "0", t.TempDir())
		if !strings.Contains(r.err, pmqos.Device) {
			t.Errorf("%v: %s", err, r.err)
		}
		return
	}
	s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0", "--cpu-latency", "0")
	if text := scrape(t, s); !strings.Contains(text, "\nlwio_cpu_latency_held 0\n") {
		t.Errorf("before I/O:\n%s", text)
	}
	c, err := lwio.Dial(t.Context(), s.url, &lwio.Config{RequireRDMA: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	write(t, []byte("content"), s.dir, "f")
	f, err := c.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // beside the scrapes, which may take longer than the limit is held without I/O
		defer close(done)
		for p := make([]byte, 4); ; {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := f.ReadAt(p, 0); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for end := time.Now().Add(time.Minute); !strings.Contains(scrape(t, s), "\nlwio_cpu_latency_held 1\n"); {
		if time.Now().After(end) {
			t.Fatal("not held while there is I/O")
		}
	}
}

// bench says in which state it measured.
func TestBenchCPULatency(t *testing.T) {
	s := startServer(t, t.TempDir())
	write(t, make([]byte, 8192), s.dir, "f")
	args := []string{"bench", "--cpu-latency", "0", "--runtime", "10ms", s.url + "/f"}
	if err := probe(); err != nil {
		if r := run(t, exitFailure, args...); !strings.Contains(r.err, "--cpu-latency: open "+pmqos.Device) {
			t.Errorf("%v: %s", err, r.err)
		}
		return
	}
	if r := run(t, exitOK, args...); !strings.Contains(r.out, "idle CPUs awake") {
		t.Errorf("%s", r.out)
	}
}

// probe tells why idle CPUs cannot be kept awake here.
func probe() error {
	r, err := pmqos.Open(pmqos.Device)
	if err != nil {
		return err
	}
	return r.Close()
}

func TestCPULatencyFlag(t *testing.T) {
	for text, want := range map[string]string{"0": "1ns", "0s": "1ns", "5us": "5µs", "1ms": "1ms"} {
		var l cpuLatency
		if l.String() != "" {
			t.Errorf("no limit is %q", l.String())
		}
		if err := l.Set(text); err != nil || l.String() != want {
			t.Errorf("%s: %s, %v", text, l.String(), err)
		}
	}
	for _, text := range []string{"", "5", "-1us", "none"} {
		if r := run(t, exitUsage, "serve", "--cpu-latency", text, t.TempDir()); !strings.Contains(r.err, "--cpu-latency") {
			t.Errorf("%q: %s", text, r.err)
		}
	}
}

// The doctor says whether it can be had, what to do where it cannot, and how CPUs sleep.
func TestDoctorCPULatency(t *testing.T) {
	dir := t.TempDir()
	device := write(t, nil, dir, "device")
	none := filepath.Join(dir, "none")
	for driver, want := range map[string]string{"intel_idle\n": "driver intel_idle", "haltpoll\n": "takes the host to wake one", "none\n": "takes the host"} {
		write(t, []byte(driver), dir, "idle", "current_driver")
		f := examineCPULatency(device, filepath.Join(dir, "idle"))
		if !f.Usable || f.Next != "" || !strings.HasSuffix(f.Detail, want) && !strings.Contains(f.Detail, want) {
			t.Errorf("%s: %+v", driver, f)
		}
	}
	if f := examineCPULatency(none, none); f.Usable || !strings.Contains(f.Detail, none) || !strings.Contains(f.Next, "container") {
		t.Errorf("without a device: %+v", f)
	}
	for want, err := range map[string]error{
		"udev": fs.ErrPermission, "container": fs.ErrNotExist, "only Linux": errors.ErrUnsupported, "look at": errors.New("else"),
	} {
		if got := awakeAdvice(&os.PathError{Op: "open", Path: "p", Err: fmt.Errorf("why: %w", err)}); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}
