package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"lwio/integration/internal/measure"
	"lwio/rdma"
)

// TestMain makes the test binary one of the two processes of a run, if it is called
// as one.
func TestMain(m *testing.M) {
	if job, ok := measure.Side(); ok {
		exitOn(playSide(job))
		return
	}
	os.Exit(m.Run())
}

// TestRows runs every subject for a moment: the figures are not looked at, but that
// there are some.
func TestRows(t *testing.T) {
	cores, err := measure.Cores()
	if err != nil {
		t.Fatal(err)
	}
	c := conductor{cores: [2]int{cores[0], cores[len(cores)-1]}, scale: 0.0005}
	for _, r := range rows {
		for _, s := range r.subjects {
			t.Run(r.name+"/"+s.name, func(t *testing.T) {
				j := s.job
				j.Size = min(j.Size, mib)
				got, err := c.run(j)
				if err != nil && strings.Contains(err.Error(), rdma.StatusNotSupported.Error()) {
					return // what a provider lacks is no failure of the program
				}
				if err != nil {
					t.Fatal(err)
				}
				if got[0].Ops == 0 || got[0].Took <= 0 {
					t.Errorf("outcome %+v", got)
				}
			})
		}
	}
}

// TestFailure: a run that cannot be says what each process said, and what is left of
// its row is printed.
func TestFailure(t *testing.T) {
	cores, err := measure.Cores()
	if err != nil {
		t.Fatal(err)
	}
	c := conductor{cores: [2]int{cores[0], cores[0]}, scale: 1}
	if _, err := c.run(job{Bench: "none"}); err == nil || !strings.Contains(err.Error(), `no benchmark "none"`) {
		t.Errorf("a benchmark that is none: %v", err)
	}
	if _, err := c.run(job{Bench: "send", Provider: "none"}); err == nil || !strings.Contains(err.Error(), `no provider "none"`) {
		t.Errorf("a provider that is none: %v", err)
	}
	var out strings.Builder
	if err := rows[0].print(&out, make([][]run, len(rows[0].subjects))); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "failed"); n != len(rows[0].subjects) {
		t.Errorf("%d failures in\n%s", n, out.String())
	}
}

// TestVerdict shows each kind of bar reached and missed.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		bar       bar
		ns, floor float64
		want      string
	}{
		{bar{}, 1, 1, ""},
		{bar{0, atMostPlus, 150}, 450, 300, "floor + 150 ns: pass"},
		{bar{0, atMostPlus, 150}, 451, 300, "floor + 150 ns: miss"},
		{bar{0, atMost, 1.3}, 130, 100, "at most 1.30: pass"},
		{bar{0, atMost, 1.3}, 131, 100, "at most 1.30: miss"},
		{bar{0, rate, 0.5}, 200, 100, "at least 0.50: pass"},
		{bar{0, rate, 0.5}, 201, 100, "at least 0.50: miss"},
		{bar{0, under, 50}, 49, 0, "under 50 ns: pass"},
		{bar{0, under, 50}, 50, 0, "under 50 ns: miss"},
	} {
		if got := (subject{bar: c.bar}).verdict(c.ns, c.floor); got != c.want {
			t.Errorf("%s: got %q, want %q", fmt.Sprint(c), got, c.want)
		}
	}
}
