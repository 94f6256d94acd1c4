package main

import (
	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

// The jobs of several subjects.
var (
	pings   = sides.Job{Bench: "ping", Size: 64, Count: 20_000}
	streams = sides.Job{Bench: "stream", Size: mib, Count: 1_500}
	posts   = sides.Job{Bench: "http", Size: 16 * kib, Conns: 32, Count: 60_000}
	used    = sides.Job{Bench: "idle", Size: 64, Conns: 500}
	heavy   = sides.Job{Bench: "idle", Size: 64, Conns: 200, Heavy: true}
)

// cubic is a job with the congestion control of most systems. Some others are slow within a
// host, and iwarp does not use them there.
func cubic(j sides.Job) sides.Job { j.Congestion = "cubic"; return j }

// idleSocket bounds the memory of an idle connection on each side, in bytes.
const idleSocket = 128 * kib

// sockRows are the rows of the sockets.
var sockRows = []measure.Row{
	{Name: "ping", Title: "64 bytes there and back", Subjects: []measure.Subject{
		{Name: "Unix socket", Job: by("unix", pings)},
		{Name: "shm, spinning", Job: by("shm", spinning(pings, 15))},
		{Name: "shm, asleep", Job: by("shm", pings)},
		{Name: "shm, asleep on a futex", Job: by("shm, blocking", pings)},
	}, Bars: []measure.Bar{
		rateAtLeast(1, 0, 10), rateAtLeast(2, 0, 1), rateAtLeast(3, 0, 1),
	}},

	{Name: "stream", Title: "1 MiB at a time, one way", Subjects: []measure.Subject{
		{Name: "Unix socket", Job: by("unix", streams)},
		{Name: "shm, spinning", Job: by("shm", spinning(streams, 1))},
		{Name: "shm, asleep", Job: by("shm", streams)},
	}, Bars: []measure.Bar{
		rateAtLeast(1, 0, 1.5), rateAtLeast(2, 0, 1.5), atMost(2, 0, measure.ServerCPU, 1),
	}},

	overTCP("iwarp-ping", "64 bytes there and back, CRC off, asleep", pings),
	overTCP("iwarp-stream", "1 MiB at a time, one way, CRC off, asleep", streams),
	overTCP("iwarp-ping-spin", "64 bytes there and back, CRC off, spinning", spinning(pings, 3)),
	overTCP("iwarp-stream-spin", "1 MiB at a time, one way, CRC off, spinning", spinning(streams, 1)),

	{Name: "http", Title: "net/http, bodies of 16 KiB both ways, 32 connections", Subjects: []measure.Subject{
		{Name: "TCP", Job: by("tcp", posts)},
		{Name: "shm", Job: by("shm", posts)},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 1.05)}},

	idleSockets("idle", "memory of an idle connection that was used, of 500", used),
	idleSockets("idle-heavy", "memory of an idle connection after much data, of 200", heavy),
}

// overTCP is a row of iwarp beside TCP. TCP that spins goes around the scheduler of Go.
func overTCP(name, title string, j sides.Job) measure.Row {
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "TCP", Job: by("tcp", j)},
		{Name: "TCP with cubic", Job: by("tcp", cubic(j))},
		{Name: "iwarp", Job: by("iwarp, CRC off", j)},
	}, Bars: []measure.Bar{rateAtLeast(2, 0, 0.85)}}
}

// idleSockets is a row of memory.
func idleSockets(name, title string, j sides.Job) measure.Row {
	return measure.Row{Name: name, Title: title, Subjects: []measure.Subject{
		{Name: "Unix socket", Job: by("unix", j)},
		{Name: "shm", Job: by("shm", j)},
		{Name: "iwarp", Job: by("iwarp, CRC off", j)},
	}, Bars: []measure.Bar{
		under(1, measure.ClientMemory, idleSocket), under(1, measure.ServerMemory, idleSocket),
		under(2, measure.ClientMemory, idleSocket), under(2, measure.ServerMemory, idleSocket),
	}}
}
