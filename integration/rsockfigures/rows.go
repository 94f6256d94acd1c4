package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"lwio/integration/internal/measure"
)

// row is a comparison; the first subject is what the others are compared with.
type row struct {
	name, title string
	subjects    []subject
}

// subject is one of what a row compares.
type subject struct {
	name string
	job  job
	bar  bar
}

// bar is what a subject has to reach; the zero bar is none.
type bar struct {
	rate   float64 // at least so many times the rate of the first
	cheap  bool    // less CPU on the passive side than the first
	memory float64 // at most so many bytes on either side
}

const kib = 1 << 10

// cubic is the congestion control of most systems. Some others cost time within a host, which
// iwarp does not take there.
const cubic = "cubic"

// rows are all that is measured.
var rows = []row{
	{"ping", "64 bytes there and back", []subject{
		{"Unix socket", job{Bench: "ping", Via: "unix", Size: 64, Count: 20_000}, bar{}},
		{"shm, spinning", job{Bench: "ping", Via: "shm", Spin: true, Size: 64, Count: 300_000}, bar{rate: 10}},
		{"shm, sleeping", job{Bench: "ping", Via: "shm", Size: 64, Count: 20_000}, bar{rate: 1}},
		{"shm, sleeping on a futex", job{Bench: "ping", Via: "shm", Futex: true, Size: 64, Count: 20_000}, bar{rate: 1}},
	}},
	{"stream", "1 MiB at a time, one way", []subject{
		{"Unix socket", job{Bench: "stream", Via: "unix", Size: 1 << 20, Count: 2000}, bar{}},
		{"shm, spinning", job{Bench: "stream", Via: "shm", Spin: true, Size: 1 << 20, Count: 2000}, bar{rate: 1.5}},
		{"shm, sleeping", job{Bench: "stream", Via: "shm", Size: 1 << 20, Count: 2000}, bar{rate: 1.5, cheap: true}},
	}},
	{"iwarp-ping", "64 bytes there and back, CRC off, asleep", []subject{
		{"TCP", job{Bench: "ping", Via: "tcp", Size: 64, Count: 20_000}, bar{}},
		{"the same with cubic", job{Bench: "ping", Via: "tcp", Size: 64, Count: 20_000, Congestion: cubic}, bar{}},
		{"iwarp", job{Bench: "ping", Via: "iwarp", Size: 64, Count: 20_000}, bar{rate: 0.85}},
	}},
	{"iwarp-stream", "1 MiB at a time, one way, CRC off, asleep", []subject{
		{"TCP", job{Bench: "stream", Via: "tcp", Size: 1 << 20, Count: 1500}, bar{}},
		{"the same with cubic", job{Bench: "stream", Via: "tcp", Size: 1 << 20, Count: 1500, Congestion: cubic}, bar{}},
		{"iwarp", job{Bench: "stream", Via: "iwarp", Size: 1 << 20, Count: 1500}, bar{rate: 0.85}},
	}},
	{"iwarp-ping-spin", "64 bytes there and back, CRC off, spinning", []subject{
		{"TCP, calls that do not block in a loop", job{Bench: "ping", Via: "tcp", Spin: true, Size: 64, Count: 60_000}, bar{}},
		{"the same with cubic", job{Bench: "ping", Via: "tcp", Spin: true, Size: 64, Count: 60_000, Congestion: cubic}, bar{}},
		{"iwarp", job{Bench: "ping", Via: "iwarp", Spin: true, Size: 64, Count: 60_000}, bar{rate: 0.85}},
	}},
	{"iwarp-stream-spin", "1 MiB at a time, one way, CRC off, spinning", []subject{
		{"TCP, calls that do not block in a loop", job{Bench: "stream", Via: "tcp", Spin: true, Size: 1 << 20, Count: 1500}, bar{}},
		{"the same with cubic", job{Bench: "stream", Via: "tcp", Spin: true, Size: 1 << 20, Count: 1500, Congestion: cubic}, bar{}},
		{"iwarp", job{Bench: "stream", Via: "iwarp", Spin: true, Size: 1 << 20, Count: 1500}, bar{rate: 0.85}},
	}},
	{"http", "net/http, bodies of 16 KiB both ways, 32 connections", []subject{
		{"TCP", job{Bench: "http", Via: "tcp", Size: 16 * kib, Conns: 32, Count: 60_000}, bar{}},
		{"shm", job{Bench: "http", Via: "shm", Size: 16 * kib, Conns: 32, Count: 60_000}, bar{rate: 1.05}},
	}},
	{"idle", "memory of an idle connection that was used, of 500", []subject{
		{"Unix socket", job{Bench: "idle", Via: "unix", Size: 64, Conns: 500}, bar{}},
		{"shm", job{Bench: "idle", Via: "shm", Size: 64, Conns: 500}, bar{memory: 128 * kib}},
		{"iwarp", job{Bench: "idle", Via: "iwarp", Size: 64, Conns: 500}, bar{memory: 128 * kib}},
		{"Unix socket, after much data and a rest", job{Bench: "idle", Via: "unix", Size: 64, Conns: 200, Heavy: true}, bar{}},
		{"shm, after much data and a rest", job{Bench: "idle", Via: "shm", Size: 64, Conns: 200, Heavy: true}, bar{memory: 128 * kib}},
		{"iwarp, after much data and a rest", job{Bench: "idle", Via: "iwarp", Size: 64, Conns: 200, Heavy: true}, bar{memory: 128 * kib}},
	}},
}

// print prints the table of a row; the runs are those of each subject.
func (r row) print(out io.Writer, runs [][]run) error {
	fmt.Fprintf(out, "\n%s: %s\n", r.name, r.title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if r.subjects[0].job.Bench == "idle" {
		fmt.Fprintln(w, "| \t| active side\t| passive side\t| bar\t|")
		fmt.Fprintln(w, "| ---\t| ---:\t| ---:\t| ---\t|")
	} else {
		fmt.Fprintln(w, "| \t| each\t| rate\t| CPU each, active\t| CPU each, passive\t| times the rate\t| bar\t|")
		fmt.Fprintln(w, "| ---\t| ---:\t| ---:\t| ---:\t| ---:\t| ---:\t| ---\t|")
	}
	for i, s := range r.subjects {
		fmt.Fprintf(w, "| %s\t| %s\t|\n", s.name, strings.Join(s.line(runs[i], runs[0]), "\t| "))
	}
	return w.Flush()
}

// line is what is known of a subject.
func (s subject) line(runs, first []run) []string {
	if s.job.Bench == "idle" {
		active, passive := measure.MedianOf(runs, memory(0)), measure.MedianOf(runs, memory(1))
		verdict := ""
		if s.bar.memory > 0 {
			verdict = measure.Passed(fmt.Sprintf("at most %.0f KiB", s.bar.memory/kib), max(active, passive) <= s.bar.memory)
		}
		return []string{fmt.Sprintf("%.1f KiB", active/kib), fmt.Sprintf("%.1f KiB", passive/kib), verdict}
	}
	each, floor := measure.MedianOf(runs, run.each), measure.MedianOf(first, run.each)
	passive := measure.MedianOf(runs, cpu(1))
	var verdicts []string
	if s.bar.rate > 0 {
		verdicts = append(verdicts, measure.Passed(fmt.Sprintf("at least %.2f", s.bar.rate), floor/each >= s.bar.rate))
	}
	if s.bar.cheap {
		verdicts = append(verdicts, measure.Passed("less CPU, passive", passive < measure.MedianOf(first, cpu(1))))
	}
	return []string{
		measure.Duration(each), s.rate(each), measure.Duration(measure.MedianOf(runs, cpu(0))), measure.Duration(passive),
		fmt.Sprintf("%.2f", floor/each), strings.Join(verdicts, "; "),
	}
}

// rate is how much is done in a second.
func (s subject) rate(ns float64) string {
	if s.job.Bench == "stream" {
		return fmt.Sprintf("%.0f MB/s", float64(s.job.Size)/ns*1e3)
	}
	return fmt.Sprintf("%.0f/s", 1e9/ns)
}

// each is the time that one operation took, in nanoseconds.
func (r run) each() float64 { return float64(r[0].Took) / float64(r[0].Ops) }

// cpu is the CPU time of one side for one operation, in nanoseconds.
func cpu(side int) func(run) float64 {
	return func(r run) float64 { return float64(r[side].CPU) / float64(r[0].Ops) }
}

// memory is that of one connection on one side, in bytes.
func memory(side int) func(run) float64 {
	return func(r run) float64 { return float64(r[side].Memory) / float64(r[0].Ops) }
}
