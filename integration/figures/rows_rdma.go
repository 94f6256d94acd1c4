package main

import (
	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

const gib = 1 << 30

// The jobs of several subjects.
var (
	words    = sides.Job{Bench: "word", Spin: true, Size: 8, Count: 300_000}
	messages = sides.Job{Bench: "send", Size: 64, Count: 20_000}
	wakes    = sides.Job{Bench: "send", Size: 8, Count: 20_000}
	writes1m = sides.Job{Bench: "write", Size: mib, Buffers: 16, Flight: 4, Batch: 1, Count: 1_000}
	writes4k = sides.Job{Bench: "write", Size: 4 * kib, Buffers: 512, Flight: 32, Batch: 16, Count: 200_000}
	windows  = sides.Job{Bench: "window", Spin: true, Size: 4 * kib, Buffers: 1, Batch: 16, Count: 1_000_000}
	window   = sides.Job{Bench: "window", Spin: true, Size: 4 * kib, Buffers: 1, Batch: 1, Count: 60_000}
	register = sides.Job{Bench: "register", Spin: true, Count: 2_000}
	allocate = sides.Job{Bench: "allocate", Spin: true, Count: 2_000}
)

// by is a job over a provider, or a floor's job over a socket.
func by(via string, j sides.Job) sides.Job { j.Via = via; return j }

// as is the same job by another benchmark.
func as(bench string, j sides.Job) sides.Job { j.Bench = bench; return j }

// spinning is a job that polls, with a multiple of the operations.
func spinning(j sides.Job, times int) sides.Job {
	j.Spin, j.Count = true, j.Count*times
	return j
}

// sized is a job with operations of a size, and count of them.
func sized(j sides.Job, size, count int) sides.Job {
	j.Size, j.Count = size, count
	return j
}

// batched is a job that posts n operations by one call.
func batched(j sides.Job, n int) sides.Job { j.Batch = n; return j }

// rdmaRows are the rows of the verbs.
var rdmaRows = []measure.Row{
	{Name: "shm-word", Title: "shm: 8 bytes written, seen by a poller and answered", Subjects: []measure.Subject{
		{Name: "two processes spinning on one word each", Job: as("words", words)},
		{Name: "shm", Job: by("shm", words)},
	}, Bars: []measure.Bar{{Ours: 1, Beside: 0, Figure: measure.Each, Kind: measure.Plus, Amount: 150}}},

	{Name: "shm-write", Title: "shm: writes of 1 MiB", Subjects: []measure.Subject{
		{Name: "memmove through as many buffers", Job: as("memmove", spinning(writes1m, 2))},
		{Name: "shm", Job: by("shm", spinning(writes1m, 2))},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 0.95)}},

	{Name: "shm-wake", Title: "shm: a sleeping receiver woken, there and back", Subjects: []measure.Subject{
		{Name: "futex", Job: as("futex", wakes)},
		{Name: "eventfd in the network poller", Job: as("eventfd", wakes)},
		{Name: "Unix socket, for comparison", Job: by("unix", as("ping", wakes))},
		{Name: "shm, blocking, beside the futex", Job: by("shm, blocking", wakes)},
		{Name: "shm, sleeping in the poller, beside the eventfd", Job: by("shm", wakes)},
	}, Bars: []measure.Bar{atMost(3, 0, measure.Each, 1.3), atMost(4, 1, measure.Each, 1.3)}},

	{Name: "iwarp-ping", Title: "iwarp: 64 bytes sent there and back, polled", Subjects: []measure.Subject{
		{Name: "TCP, spinning", Job: by("tcp", as("ping", spinning(messages, 5)))},
		{Name: "iwarp, CRC on", Job: by("iwarp", spinning(messages, 5))},
		{Name: "iwarp, CRC off", Job: by("iwarp, CRC off", spinning(messages, 5))},
	}, Bars: []measure.Bar{atMost(1, 0, measure.Each, 1.15), atMost(2, 0, measure.Each, 1.15)}},

	{Name: "iwarp-sleep", Title: "iwarp: 64 bytes sent there and back, asleep", Subjects: []measure.Subject{
		{Name: "TCP, asleep", Job: by("tcp", as("ping", messages))},
		{Name: "iwarp, CRC on", Job: by("iwarp", messages)},
		{Name: "iwarp, CRC off", Job: by("iwarp, CRC off", messages)},
	}, Bars: []measure.Bar{atMost(1, 0, measure.Each, 1.15), atMost(2, 0, measure.Each, 1.15)}},

	{Name: "iwarp-write", Title: "iwarp: writes of 1 MiB", Subjects: []measure.Subject{
		{Name: "TCP stream", Job: by("tcp", as("stream", writes1m))},
		{Name: "iwarp, CRC off", Job: by("iwarp, CRC off", writes1m)},
		{Name: "iwarp, CRC on", Job: by("iwarp", writes1m)},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 0.95), rateAtLeast(2, 0, 0.65)}},

	{Name: "iwarp-small", Title: "iwarp: writes of 4 KiB, 32 in flight", Subjects: []measure.Subject{
		{Name: "TCP stream in batches of 32", Job: by("tcp", as("stream", batched(writes4k, 32)))},
		{Name: "iwarp, CRC off", Job: by("iwarp, CRC off", writes4k)},
	}, Bars: []measure.Bar{rateAtLeast(1, 0, 0.8)}},

	{Name: "window", Title: "a window bound and invalidated, 16 pairs a post", Subjects: []measure.Subject{
		{Name: "iwarp", Job: by("iwarp", windows)},
		{Name: "shm", Job: by("shm", windows)},
		{Name: "iwarp, one pair a post, with its result", Job: by("iwarp", window)},
		{Name: "shm, one pair a post, with its result", Job: by("shm", window)},
	}, Bars: []measure.Bar{under(0, measure.Each, 50), under(1, measure.Each, 50)}},

	{Name: "register", Title: "memory registered and deregistered", Subjects: []measure.Subject{
		{Name: "iwarp, 4 KiB", Job: by("iwarp", sized(register, 4*kib, 2000))},
		{Name: "shm, 4 KiB", Job: by("shm", sized(register, 4*kib, 2000))},
		{Name: "iwarp, 1 GiB", Job: by("iwarp", sized(register, gib, 40))},
		{Name: "shm, 1 GiB", Job: by("shm", sized(register, gib, 40))},
		{Name: "iwarp, 4 KiB, allocated too", Job: by("iwarp", sized(allocate, 4*kib, 2000))},
		{Name: "shm, 4 KiB, allocated too", Job: by("shm", sized(allocate, 4*kib, 2000))},
		{Name: "iwarp, 1 GiB, allocated too", Job: by("iwarp", sized(allocate, gib, 2))},
		{Name: "shm, 1 GiB, allocated too", Job: by("shm", sized(allocate, gib, 2))},
	}},
}
