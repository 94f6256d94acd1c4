package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lwio/integration/internal/measure"
)

// tolerance is the part by which a figure may be worse, beyond its spread.
const tolerance = 0.03

// comparison is a load with one of the two binaries as client and server.
type comparison struct {
	bench
	bin    string
	common bool // both binaries know only the flags of the first lwio bench
}

// Run does the load once. Reads are of the lab's file. The first lwio bench writes to no named
// file: with it each run of writes lays out a scratch file of its own, in the same way.
func (c comparison) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	if c.RW != "randread" && c.common {
		f := append(c.flags(l), "--pin", "--dir", l.Dir, "--size", strconv.FormatInt(min(l.Size, 256*mib), 10), "--verify")
		// With --pin it places itself and its server on a core each.
		out, err := exec.CommandContext(ctx, c.bin, f...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.bin, strings.Join(f, " "), err)
		}
		return readBench(string(out))
	}
	name, err := makeFile(l, false)
	if err != nil {
		return nil, err
	}
	s, err := server(l, c.bin, l.Server, false)
	if err != nil {
		return nil, err
	}
	f := c.flags(l)
	if !c.common {
		f = append(f, "--ramp-time", (l.Runtime / 8).String(), "--server-pid", strconv.Itoa(s.PID()), "--overwrite")
	}
	m := measure.StartMeter(s.PID())
	out, err := l.Command(ctx, m, nil, append(append([]string{c.bin}, f...), s.At+"/"+filepath.Base(name))...)
	if err != nil {
		return nil, err
	}
	sample, err := readBench(out)
	if _, ok := sample[measure.ServerCPU]; err == nil && !ok {
		// With the connection and the open, which take far less than the load.
		sample[measure.ServerCPU] = float64(m.Server) / (sample[measure.Rate] * l.Runtime.Seconds())
	}
	return sample, err
}

// prepareCompare makes the rows of two binaries.
func prepareCompare(l *measure.Lab, o options) ([]measure.Row, error) {
	older, err := filepath.Abs(o.old)
	if err != nil {
		return nil, err
	}
	newer := binary(l)
	if o.new == "" {
		err = build(l)
	} else {
		newer, err = filepath.Abs(o.new)
	}
	if err != nil {
		return nil, err
	}
	common := false
	for _, bin := range []string{older, newer} {
		help, err := exec.Command(bin, "bench", "--help").Output()
		if err != nil {
			return nil, fmt.Errorf("%s bench --help: %w", bin, err)
		}
		common = common || !strings.Contains(string(help), "--ioengine")
	}
	var rows []measure.Row
	for _, via := range []string{viaShm, viaIWARP} {
		for _, mode := range []string{polling, interrupt} {
			for _, load := range loads(common) {
				j := load.job.via(via, mode)
				rows = append(rows, measure.Row{
					Name: strings.Join([]string{load.name, via, mode}, "-"), Title: load.title + ", " + via + ", " + mode,
					Subjects: []measure.Subject{
						{Name: "old", Job: comparison{j, older, common}}, {Name: "new", Job: comparison{j, newer, common}},
					},
				})
			}
		}
	}
	return rows, nil
}

// load is a job that both binaries do.
type load struct {
	name, title string
	job         bench
}

// loads are all loads; blocking calls of several goroutines need --ioengine.
func loads(common bool) []load {
	all := []load{
		{"read-4k-1", "4 KiB random reads, one at a time", single},
		{"read-4k-32", "4 KiB random reads, 32 in flight", deep},
		{"read-1m", "1 MiB reads, 8 in flight", large},
		{"write-4k", "4 KiB random writes, 32 in flight", deep.writing()},
		{"write-1m", "1 MiB random writes, 8 in flight", large.writing()},
	}
	if common {
		return all
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
