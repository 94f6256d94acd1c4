package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"lwio/integration/internal/measure"
)

// tolerance is the part by which a figure may be worse, beyond its spread.
const tolerance = 0.03

// prepareCompare makes the rows of two binaries.
func prepareCompare(l *measure.Lab, o options) ([]measure.Row, error) {
	oldBin, err := filepath.Abs(o.old)
	if err != nil {
		return nil, err
	}
	newBin := binary(l)
	if o.new == "" {
		err = build(l)
	} else {
		newBin, err = filepath.Abs(o.new)
	}
	if err != nil {
		return nil, err
	}
	var rows []measure.Row
	for _, via := range []string{viaShm, viaIWARP} {
		for _, mode := range []string{polling, interrupt} {
			for _, load := range loads() {
				older, newer := load.job.via(via, mode), load.job.via(via, mode)
				older.Bin, older.Timed, newer.Bin, newer.Timed = oldBin, true, newBin, true
				rows = append(rows, measure.Row{
					Name: strings.Join([]string{load.name, via, mode}, "-"), Title: load.title + ", " + via + ", " + mode,
					Subjects: []measure.Subject{
						{Name: "old", Job: older}, {Name: "new", Job: newer},
					},
				})
			}
		}
	}
	for _, flight := range []int{1, 16} {
		older := names{Call: opening, Flight: flight, Bin: oldBin}
		newer := older
		newer.Bin = newBin
		rows = append(rows, measure.Row{
			Name: fmt.Sprintf("open-%d", flight), Title: fmt.Sprintf("an open that is not durable and its close, %d in flight", flight),
			Subjects: []measure.Subject{{Name: "old", Job: older}, {Name: "new", Job: newer}},
		})
	}
	return rows, nil
}

// load is a job that both binaries do.
type load struct {
	name, title string
	job         bench
}

// loads are all loads, each by a Batch and by calls.
func loads() []load {
	all := []load{
		{"read-4k-1", "4 KiB random reads, one at a time", single},
		{"read-4k-32", "4 KiB random reads, 32 in flight", deep},
		{"read-1m", "1 MiB reads, 8 in flight", large},
		{"write-4k", "4 KiB random writes, 32 in flight", deep.writing()},
		{"write-1m", "1 MiB random writes, 8 in flight", large.writing()},
	}
	for _, l := range slices.Clone(all) {
		switch l.job.Depth {
		case 1: // a call already
			all = append(all, load{l.name + "-batch", l.title + ", Batch", l.job.by("batch")})
		default:
			all = append(all, load{l.name + "-calls", l.title + ", calls", l.job.by("sync")})
		}
	}
	return all
}

// change is a figure of a row, of both binaries.
type change struct {
	Row    string         `json:"row"`
	Figure measure.Figure `json:"figure"`
	Old    float64        `json:"old"`
	New    float64        `json:"new"`
	// Ratio is the median of the ratios within each round, Spread half of their range.
	Ratio  float64 `json:"ratio"`
	Spread float64 `json:"spread"`
	Worse  bool    `json:"worse"`
}

// changes compares the figures of a row.
func changes(t measure.Table) (all []change) {
	older, newer := t.Subjects[0], t.Subjects[1]
	for _, f := range []measure.Figure{measure.Rate, measure.P50, measure.ClientCPU, measure.ServerCPU} {
		if _, ok := older.Values[f]; !ok || len(newer.Runs) != len(older.Runs) {
			continue
		}
		var ratios []float64
		for i := range older.Runs {
			ratios = append(ratios, newer.Runs[i][f]/older.Runs[i][f])
		}
		c := change{Row: t.Row, Figure: f, Old: older.Values[f], New: newer.Values[f], Ratio: measure.Median(ratios)}
		c.Spread = (slices.Max(ratios) - slices.Min(ratios)) / 2
		c.Worse = c.Ratio > 1+tolerance+c.Spread
		if f == measure.Rate {
			c.Worse = c.Ratio < 1-tolerance-c.Spread
		}
		all = append(all, c)
	}
	return all
}

// errWorse is the error of a comparison with a row that is worse.
var errWorse = errors.New("the new binary is worse")

// printComparison prints all figures of all rows.
//
// Errors: errWorse; the failures of subjects.
func printComparison(out io.Writer, all []measure.Table) error {
	rows := [][]string{{"row", "figure", "", "old", "new", "new / old", "spread"}}
	var worse, failed []string
	for _, t := range all {
		for _, m := range t.Subjects {
			if m.Failure != "" {
				failed = append(failed, fmt.Sprintf("%s, %s: %s", t.Row, m.Name, m.Failure))
			}
		}
		for _, c := range changes(t) {
			verdict := ""
			if c.Worse {
				verdict = "**worse**"
				worse = append(worse, fmt.Sprintf("%s, %s", c.Row, c.Figure))
			}
			rows = append(rows, []string{
				c.Row, string(c.Figure), verdict, c.Figure.Format(c.Old), c.Figure.Format(c.New),
				fmt.Sprintf("%.2f", c.Ratio), fmt.Sprintf("±%.2f", c.Spread),
			})
		}
	}
	fmt.Fprintln(out)
	err := measure.Markdown(out, 3, rows)
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("not measured: %s", strings.Join(failed, "\n")))
	}
	if len(worse) > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %s", errWorse, strings.Join(worse, "; ")))
	}
	return err
}

// encodeComparison prints the figures as JSON.
func encodeComparison(out io.Writer, all []measure.Table) error {
	var found []change
	for _, t := range all {
		found = append(found, changes(t)...)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(found)
}
