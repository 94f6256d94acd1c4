package main

// row is a line of the table of issue figures: subjects that do the same.
type row struct {
	name, title string
	subjects    []subject
}

// subject is one way to do what a row is about. The floors stand first.
type subject struct {
	name string
	job  job
	bar  bar
}

// bar is what a subject must reach, beside the floor or by itself.
type bar struct {
	floor  int     // index of the floor among the subjects of the row
	kind   barKind // what is compared
	amount float64
}

type barKind int

const (
	noBar      barKind = iota
	atMostPlus         // time at most that of the floor and so many nanoseconds
	atMost             // time at most so many times that of the floor
	rate               // rate at least so many times that of the floor
	under              // time under so many nanoseconds
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// The jobs that several subjects do.
var (
	words    = job{Bench: "word", Size: 8, Count: 300_000}
	pings    = job{Bench: "send", Size: 64, Count: 100_000}
	wakes    = job{Bench: "send", Size: 8, Sleep: true, Count: 20_000}
	large    = job{Bench: "write", Size: mib, Buffers: 16, Flight: 4, Batch: 1, Count: 2_000}
	stream   = job{Bench: "write", Sleep: true, Size: mib, Buffers: 16, Flight: 4, Batch: 1, Count: 1_000}
	small    = job{Bench: "write", Sleep: true, Size: 4 * kib, Buffers: 512, Flight: 32, Batch: 16, Count: 200_000}
	windows  = job{Bench: "window", Size: 4 * kib, Buffers: 1, Batch: 16, Count: 1_000_000}
	register = job{Bench: "register", Count: 2_000}
	allocate = job{Bench: "allocate", Count: 2_000}
)

// by is a job of a provider, floor the same job of a floor.
func by(provider string, j job) job {
	j.Provider = provider
	return j
}

func floor(bench string, j job) job {
	j.Bench = bench
	return j
}

func asleep(j job) job {
	j.Sleep, j.Count = true, j.Count/5
	return j
}

func sized(j job, size int) job {
	j.Size = size
	return j
}

func times(j job, n int) job {
	j.Count = n
	return j
}

func batched(j job, n int) job {
	j.Batch, j.Count = n, j.Count*n/j.Batch
	return j
}

// rows are all that is measured.
var rows = []row{
	{"shm-word", "shm: 8 bytes written, seen by a poller and answered", []subject{
		{"two processes spinning on one word each", floor("floor words", words), bar{}},
		{"shm", by("shm", words), bar{0, atMostPlus, 150}},
	}},
	{"shm-write", "shm: writes of 1 MiB", []subject{
		{"memmove through as many buffers", floor("floor memmove", large), bar{}},
		{"shm", by("shm", large), bar{0, rate, 0.95}},
	}},
	{"shm-wake", "shm: a sleeping receiver woken, there and back", []subject{
		{"futex", floor("floor futex", wakes), bar{}},
		{"eventfd in the network poller", floor("floor eventfd", wakes), bar{}},
		{"Unix socket, for comparison", floor("floor unix socket", wakes), bar{}},
		{"shm, blocking, beside the futex", by("shm, blocking", wakes), bar{0, atMost, 1.3}},
		{"shm, sleeping in the poller, beside the eventfd", by("shm", wakes), bar{1, atMost, 1.3}},
	}},
	{"iwarp-ping", "iwarp: 64 bytes sent there and back, polled", []subject{
		{"TCP, spinning", floor("floor tcp pings", pings), bar{}},
		{"iwarp, CRC on", by("iwarp", pings), bar{0, atMost, 1.15}},
		{"iwarp, CRC off", by("iwarp, CRC off", pings), bar{0, atMost, 1.15}},
	}},
	{"iwarp-sleep", "iwarp: 64 bytes sent there and back, asleep", []subject{
		{"TCP, asleep", floor("floor tcp pings", asleep(pings)), bar{}},
		{"iwarp, CRC on", by("iwarp", asleep(pings)), bar{0, atMost, 1.15}},
		{"iwarp, CRC off", by("iwarp, CRC off", asleep(pings)), bar{0, atMost, 1.15}},
	}},
	{"iwarp-write", "iwarp: writes of 1 MiB", []subject{
		{"TCP stream", floor("floor tcp stream", stream), bar{}},
		{"iwarp, CRC off", by("iwarp, CRC off", stream), bar{0, rate, 0.95}},
		{"iwarp, CRC on", by("iwarp", stream), bar{0, rate, 0.65}},
	}},
	{"iwarp-small", "iwarp: writes of 4 KiB, 32 in flight", []subject{
		{"TCP stream in batches of 32", floor("floor tcp stream", batched(small, 32)), bar{}},
		{"iwarp, CRC off", by("iwarp, CRC off", small), bar{0, rate, 0.8}},
	}},
	{"window", "a window bound and invalidated, 16 pairs a post", []subject{
		{"iwarp", by("iwarp", windows), bar{0, under, 50}},
		{"shm", by("shm", windows), bar{0, under, 50}},
		{"iwarp, one pair a post, with its result", by("iwarp", batched(windows, 1)), bar{}},
		{"shm, one pair a post, with its result", by("shm", batched(windows, 1)), bar{}},
	}},
	{"register", "memory registered and given back", []subject{
		{"iwarp, 4 KiB", by("iwarp", sized(register, 4*kib)), bar{}},
		{"shm, 4 KiB", by("shm", sized(register, 4*kib)), bar{}},
		{"iwarp, 1 GiB", by("iwarp", times(sized(register, gib), 40)), bar{}},
		{"shm, 1 GiB", by("shm", times(sized(register, gib), 40)), bar{}},
		{"iwarp, 4 KiB, allocated too", by("iwarp", sized(allocate, 4*kib)), bar{}},
		{"shm, 4 KiB, allocated too", by("shm", sized(allocate, 4*kib)), bar{}},
		{"iwarp, 1 GiB, allocated too", by("iwarp", times(sized(allocate, gib), 2)), bar{}},
		{"shm, 1 GiB, allocated too", by("shm", times(sized(allocate, gib), 2)), bar{}},
	}},
}
