package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"lwio/integration/internal/measure"
)

// print prints the table of a row; the runs are those of each subject.
func (r row) print(out io.Writer, runs [][]run) error {
	fmt.Fprintf(out, "\n%s: %s\n", r.name, r.title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "| each\t| rate\t| CPU each, active\t| CPU each, passive\t| allocations each\t| of the floor\t| bar\t|  \t|")
	fmt.Fprintln(w, "| ---:\t| ---:\t| ---:\t| ---:\t| ---:\t| ---:\t| ---\t| ---\t|")
	for i, s := range r.subjects {
		line := []string{"", "", "", "", "", "", "failed: miss"}
		if len(runs[i]) > 0 {
			line = s.line(runs[i], runs[s.bar.floor])
		}
		fmt.Fprintf(w, "| %s\t| %s\t|\n", strings.Join(line, "\t| "), s.name)
	}
	return w.Flush()
}

// line is what is known of a subject that ran.
func (s subject) line(runs, floorRuns []run) []string {
	ns, floor := measure.MedianOf(runs, run.each), math.NaN()
	if len(floorRuns) > 0 {
		floor = measure.MedianOf(floorRuns, run.each)
	}
	cpu := func(side int) string {
		return measure.Duration(measure.MedianOf(runs, func(r run) float64 { return float64(r[side].CPU) / float64(r[0].Ops) }))
	}
	allocations := measure.MedianOf(runs, func(r run) float64 { return float64(r[0].Mallocs+r[1].Mallocs) / float64(r[0].Ops) })
	return []string{measure.Duration(ns), s.rate(ns), cpu(0), cpu(1), fmt.Sprintf("%.3f", allocations), s.beside(ns, floor), s.verdict(ns, floor)}
}

// rate is how many bytes a second are moved, where that is what counts.
func (s subject) rate(ns float64) string {
	if s.job.Flight == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f MB/s", float64(s.job.Size)/ns*1e3)
}

// beside is the ratio to the floor: of rates, or of times.
func (s subject) beside(ns, floor float64) string {
	switch s.bar.kind {
	case noBar, under:
		return ""
	case atMostPlus:
		return fmt.Sprintf("%+.0f ns", ns-floor)
	case rate:
		return fmt.Sprintf("%.2f", floor/ns)
	case atMost:
	}
	return fmt.Sprintf("%.2f", ns/floor)
}

// verdict says what the bar is, and whether it is reached.
func (s subject) verdict(ns, floor float64) string {
	var text string
	var pass bool
	switch s.bar.kind {
	case noBar:
		return ""
	case atMostPlus:
		text, pass = fmt.Sprintf("floor + %.0f ns", s.bar.amount), ns <= floor+s.bar.amount
	case atMost:
		text, pass = fmt.Sprintf("at most %.2f", s.bar.amount), ns <= floor*s.bar.amount
	case rate:
		text, pass = fmt.Sprintf("at least %.2f", s.bar.amount), ns*s.bar.amount <= floor
	case under:
		text, pass = fmt.Sprintf("under %.0f ns", s.bar.amount), ns < s.bar.amount
	}
	return measure.Passed(text, pass)
}
