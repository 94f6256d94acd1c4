package main

import (
	"os"
	"strings"
	"testing"

	"lwio/integration/internal/measure"
)

// The test's own binary plays the two processes.
func TestMain(m *testing.M) {
	if job, ok := measure.Side(); ok {
		exitOn(playSide(job))
		return
	}
	os.Exit(m.Run())
}

// Every subject of every row runs, and its table has a line for each.
func TestRows(t *testing.T) {
	cores, err := measure.Cores()
	if err != nil {
		t.Fatal(err)
	}
	c := conductor{cores: [2]int{cores[0], cores[len(cores)-1]}, scale: 0.01}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			runs := make([][]run, len(r.subjects))
			for i, s := range r.subjects {
				if s.job.Conns > 40 {
					s.job.Conns = 40
				}
				if cores[0] == cores[len(cores)-1] && s.job.Spin {
					s.job.Spin = false // two that spin on one core do not end
				}
				one, err := c.run(s.job)
				if err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
				runs[i] = []run{one}
				if one[0].Ops == 0 || s.job.Bench != "idle" && (one[0].Took <= 0 || one[1].CPU <= 0) {
					t.Errorf("%s: %+v", s.name, one)
				}
			}
			var out strings.Builder
			if err := r.print(&out, runs); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(out.String(), "\n|"); n != len(r.subjects)+2 {
				t.Errorf("table of %d lines:\n%s", n, out.String())
			}
		})
	}
}

// A bar is passed or missed by its numbers.
func TestVerdicts(t *testing.T) {
	first := []run{{{Ops: 10, Took: 1000}, {CPU: 500}}}
	for _, c := range []struct {
		bar  bar
		one  run
		want string
	}{
		{bar{rate: 2}, run{{Ops: 10, Took: 500}, {CPU: 1}}, "at least 2.00: pass"},
		{bar{rate: 2}, run{{Ops: 10, Took: 501}, {CPU: 1}}, "at least 2.00: miss"},
		{bar{rate: 1, cheap: true}, run{{Ops: 10, Took: 1000}, {CPU: 499}}, "at least 1.00: pass; less CPU, passive: pass"},
		{bar{rate: 1, cheap: true}, run{{Ops: 10, Took: 1000}, {CPU: 500}}, "at least 1.00: pass; less CPU, passive: miss"},
		{bar{}, run{{Ops: 10, Took: 1000}, {}}, ""},
	} {
		line := subject{job: job{Bench: "ping"}, bar: c.bar}.line([]run{c.one}, first)
		if got := line[len(line)-1]; got != c.want {
			t.Errorf("%+v of %+v: %q, want %q", c.bar, c.one, got, c.want)
		}
	}
	idle := subject{job: job{Bench: "idle"}, bar: bar{memory: 1024}}
	for bytes, want := range map[int64]string{10240: "at most 1 KiB: pass", 10241: "at most 1 KiB: miss"} {
		line := idle.line([]run{{{Ops: 10}, {Memory: bytes}}}, nil)
		if got := line[len(line)-1]; got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}
