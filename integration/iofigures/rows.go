package main

import (
	"context"
)

// row is a line of the list of bars: subjects that do the same, and how they are to
// compare. A row with a measure of its own has no subjects.
type row struct {
	name, title string
	subjects    []subject
	bars        []bar
	special     func(ctx context.Context, l *lab) ([]verdict, error)
}

// subject is one way to do what a row is about.
type subject struct {
	name string
	job  job
}

// bar is what a figure of a subject must be, as a ratio to that of another subject of
// the row.
type bar struct {
	ours, beside int // index of the subject; best stands for the one with most
	figure       figure
	kind         kind
	amount       float64
}

// best is the subject whose figure is the largest.
const best = -1

// figure is a figure of an outcome.
type figure string

const (
	rate  figure = "rate"
	p50   figure = "p50"
	cpu   figure = "client CPU"
	space figure = "memory"
)

type kind string

const (
	atMost  kind = "at most"
	atLeast kind = "at least"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// The loads that several rows have.
var (
	alone = job{Style: single, Size: 4 * kib, Depth: 1}
	deep  = job{Style: batch, Size: 4 * kib, Depth: 32}
	mid   = job{Style: batch, Size: 64 * kib, Depth: 8}
	large = job{Style: batch, Size: mib, Depth: 8}
	many  = job{Style: burst, Size: 4 * kib, Depth: 256, Mode: interrupt}
)

// The ways to wait.
const (
	polling   = "polling"
	adaptive  = "adaptive"
	interrupt = "interrupt"
)

// via is a job by a way.
func (j job) via(way, mode string) job {
	j.Way, j.Mode = way, mode
	return j
}

func (j job) noCRC() job {
	j.NoCRC = true
	return j
}

func (j job) writing() job {
	j.Write = true
	return j
}

func (j job) paged() job {
	j.Paged = true
	return j
}

func (j job) oneCore() job {
	j.Shared = true
	return j
}

func (j job) by(s style) job {
	j.Style = s
	return j
}

func (j job) cubic() job {
	j.Cubic = true
	return j
}

func (j job) lanes(n int) job {
	j.Lanes, j.Depth = n, 4
	return j
}

// rows are all that is measured.
var rows = []row{
	{name: "shm-1", title: "shm: 4 KiB random reads, one at a time", subjects: []subject{
		{"local", alone.via(wayLocal, "")},
		{"shm, polling", alone.via(wayShm, polling)},
	}, bars: []bar{{1, 0, p50, atMost, 1.8}}},

	{name: "shm-32", title: "shm: 4 KiB random reads, 32 in flight", subjects: []subject{
		{"local", deep.via(wayLocal, "")},
		{"shm, polling", deep.via(wayShm, polling)},
		{"shm, interrupt", deep.via(wayShm, interrupt)},
	}, bars: []bar{{1, 0, rate, atLeast, 0.8}, {2, 0, rate, atLeast, 0.55}, {2, 0, cpu, atMost, 0.6}}},

	{name: "adaptive-1", title: "adaptive: 4 KiB random reads, one at a time", subjects: []subject{
		{"shm, polling", alone.via(wayShm, polling)},
		{"shm, adaptive", alone.via(wayShm, adaptive)},
		{"iwarp, CRC on, polling", alone.via(wayIWARP, polling)},
		{"iwarp, CRC on, adaptive", alone.via(wayIWARP, adaptive)},
	}, bars: []bar{{1, 0, p50, atMost, 1.2}, {3, 2, p50, atMost, 1.2}}},

	{name: "adaptive-32", title: "adaptive: 4 KiB random reads, 32 in flight", subjects: []subject{
		{"shm, interrupt", deep.via(wayShm, interrupt)},
		{"shm, adaptive", deep.via(wayShm, adaptive)},
		{"iwarp, CRC on, interrupt", deep.via(wayIWARP, interrupt)},
		{"iwarp, CRC on, adaptive", deep.via(wayIWARP, adaptive)},
	}, bars: []bar{{1, 0, cpu, atMost, 1.2}, {3, 2, cpu, atMost, 1.2}}},

	{name: "adaptive-core", title: "adaptive: 4 KiB random reads, client and server on one core", subjects: []subject{
		{"shm, 32 in flight, interrupt", deep.via(wayShm, interrupt).oneCore()},
		{"shm, 32 in flight, adaptive", deep.via(wayShm, adaptive).oneCore()},
		{"shm, one at a time, interrupt", alone.via(wayShm, interrupt).oneCore()},
		{"shm, one at a time, adaptive", alone.via(wayShm, adaptive).oneCore()},
	}, bars: []bar{{1, 0, rate, atLeast, 0.8}, {3, 2, rate, atLeast, 0.8}}},

	{name: "shm-1m", title: "shm: 1 MiB reads, 8 in flight", subjects: []subject{
		{"local", large.via(wayLocal, "")},
		{"shm, polling", large.via(wayShm, polling)},
		{"shm, interrupt", large.via(wayShm, interrupt)},
	}, bars: []bar{{1, 0, rate, atLeast, 0.95}, {2, 0, rate, atLeast, 0.8}, {2, 0, cpu, atMost, 0.2}}},

	{name: "shm-64k", title: "shm: 64 KiB random reads, 8 in flight", subjects: []subject{
		{"local", mid.via(wayLocal, "")},
		{"shm, interrupt", mid.via(wayShm, interrupt)},
	}, bars: []bar{{1, 0, rate, atLeast, 0.85}, {1, 0, cpu, atMost, 0.35}}},

	{name: "iwarp-32", title: "iwarp: 4 KiB random reads, 32 in flight", subjects: []subject{
		{"nbdkit, file plugin, and fio, over TCP", deep.via(wayNBD, "")},
		{"iwarp, CRC off, adaptive", deep.via(wayIWARP, adaptive).noCRC()},
		{"iwarp, CRC off, interrupt", deep.via(wayIWARP, interrupt).noCRC()},
		{"iwarp, CRC off, polling", deep.via(wayIWARP, polling).noCRC()},
	}, bars: []bar{{1, 0, rate, atLeast, 2.5}, {1, 0, cpu, atMost, 0.25}, {2, 0, rate, atLeast, 2.5}, {2, 0, cpu, atMost, 0.25}}},

	{name: "iwarp-1", title: "iwarp: 4 KiB random reads, one at a time", subjects: []subject{
		{"TCP ping-pong, spinning", alone.via(wayTCP, "").by(spin)},
		{"iwarp, CRC off, polling", alone.via(wayIWARP, polling).noCRC()},
		{"iwarp, CRC on, polling", alone.via(wayIWARP, polling)},
		{"TCP ping-pong, sleeping", alone.via(wayTCP, "").by(sleep)},
		{"iwarp, CRC off, interrupt", alone.via(wayIWARP, interrupt).noCRC()},
		{"iwarp, CRC on, interrupt", alone.via(wayIWARP, interrupt)},
		{"TCP ping-pong, spinning, with cubic", alone.via(wayTCP, "").by(spin).cubic()},
		{"TCP ping-pong, sleeping, with cubic", alone.via(wayTCP, "").by(sleep).cubic()},
	}, bars: []bar{{1, 0, p50, atMost, 1.15}, {2, 0, p50, atMost, 1.15}, {4, 3, p50, atMost, 1.15}, {5, 3, p50, atMost, 1.15}}},

	{name: "iwarp-1m", title: "iwarp: 1 MiB reads, 8 in flight", subjects: []subject{
		{"pread and TCP", large.via(wayTCP, "").by(stream)},
		{"iwarp, CRC off", large.via(wayIWARP, adaptive).noCRC()},
		{"iwarp, CRC on", large.via(wayIWARP, adaptive)},
		{"pread and TCP, with cubic", large.via(wayTCP, "").by(stream).cubic()},
	}, bars: []bar{{1, 0, rate, atLeast, 0.9}, {2, 0, rate, atLeast, 0.6}}},

	{name: "at-once-shm", title: "shm, interrupt: 256 reads of 4 KiB at once", subjects: []subject{
		{"single reads", many.via(wayShm, interrupt).by(single)},
		{"Batch, random", many.via(wayShm, interrupt)},
		{"VEC_READ, contiguous", many.via(wayShm, interrupt).by(vec)},
	}, bars: []bar{{1, 0, cpu, atMost, 0.5}, {2, 0, cpu, atMost, 0.5}}},

	{name: "at-once-iwarp", title: "iwarp, CRC on, interrupt: 256 reads of 4 KiB at once", subjects: []subject{
		{"single reads", many.via(wayIWARP, interrupt).by(single)},
		{"Batch, random", many.via(wayIWARP, interrupt)},
		{"VEC_READ, contiguous", many.via(wayIWARP, interrupt).by(vec)},
	}, bars: []bar{{1, 0, cpu, atMost, 0.5}, {2, 0, cpu, atMost, 0.5}}},

	{name: "write-4k", title: "4 KiB random writes, 32 in flight", subjects: []subject{
		{"local", deep.via(wayLocal, "").writing()},
		{"shm", deep.via(wayShm, adaptive).writing()},
		{"nbdkit, file plugin, and fio, over TCP", deep.via(wayNBD, "").writing()},
		{"iwarp, CRC off", deep.via(wayIWARP, adaptive).noCRC().writing()},
		{"iwarp, CRC on", deep.via(wayIWARP, adaptive).writing()},
	}, bars: []bar{{1, 0, rate, atLeast, 0.7}, {3, 2, rate, atLeast, 2}, {4, 2, rate, atLeast, 2}}},

	{name: "write-4k-paged", title: "4 KiB random writes, 32 in flight, to a file that was laid down page by page", subjects: []subject{
		{"local", deep.via(wayLocal, "").writing().paged()},
		{"shm", deep.via(wayShm, adaptive).writing().paged()},
		{"nbdkit, file plugin, and fio, over TCP", deep.via(wayNBD, "").writing().paged()},
		{"iwarp, CRC off", deep.via(wayIWARP, adaptive).noCRC().writing().paged()},
		{"iwarp, CRC on", deep.via(wayIWARP, adaptive).writing().paged()},
	}, bars: []bar{{1, 0, rate, atLeast, 0.7}, {3, 2, rate, atLeast, 2}, {4, 2, rate, atLeast, 2}}},

	{name: "write-1m", title: "1 MiB random writes, 8 in flight", subjects: []subject{
		{"local", large.via(wayLocal, "").writing()},
		{"shm", large.via(wayShm, adaptive).writing()},
		{"nbdkit, file plugin, and fio, over TCP", large.via(wayNBD, "").writing()},
		{"iwarp, CRC off", large.via(wayIWARP, adaptive).noCRC().writing()},
		{"iwarp, CRC on", large.via(wayIWARP, adaptive).writing()},
		{"TCP and pwrite", large.via(wayTCP, "").by(sink).writing()},
		{"TCP and pwrite, with cubic", large.via(wayTCP, "").by(sink).writing().cubic()},
		{"TCP alone", large.via(wayTCP, "").by(drain).writing()},
		{"TCP alone, with cubic", large.via(wayTCP, "").by(drain).writing().cubic()},
	}, bars: []bar{{1, 0, rate, atLeast, 0.7}, {3, 2, rate, atLeast, 2}, {4, 2, rate, atLeast, 2}}},

	{name: "connections", title: "iwarp, CRC on: 4 KiB random reads, 4 in flight on each connection", subjects: []subject{
		{"1 connection", deep.via(wayIWARP, adaptive).lanes(1)},
		{"10 connections", deep.via(wayIWARP, adaptive).lanes(10)},
		{"100 connections", deep.via(wayIWARP, adaptive).lanes(100)},
		{"1000 connections", deep.via(wayIWARP, adaptive).lanes(1000)},
	}, bars: []bar{{0, best, rate, atLeast, 0.7}, {1, best, rate, atLeast, 0.7}, {2, best, rate, atLeast, 0.7}, {3, best, rate, atLeast, 0.7}}},

	{name: "memory", title: "memory of the server with 1000 idle connections", special: idleMemory},
}
