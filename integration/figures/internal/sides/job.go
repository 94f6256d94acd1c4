// Package sides measures the exchange of two processes: verbs of package rdma,
// sockets of package rsock and of the system, and the floors beneath both. Each process is a
// side of its own, on a core of its own; the active one is the client.
package sides

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"lwio/integration/internal/measure"
	"lwio/internal/host"
)

// Job is a benchmark of two sides.
type Job struct {
	Bench string // a key of benches
	Via   string // "unix", "tcp", or a key of providers; empty for a floor of memory
	Spin  bool   // look for progress all the time instead of sleeping
	Size  int    // bytes of one operation
	Count int    // operations in a second, about

	Flight  int // operations in flight at most
	Batch   int // operations posted or written by one call
	Buffers int // of Size bytes, used in turns, on each side
	Conns   int // connections, where there are several
	// Heavy sends much data over each connection. The connections are then idle for
	// heavyIdle.
	Heavy bool
	// Congestion is the congestion control of TCP, "" the system's.
	Congestion string
	// File is the file of benchmarks that read or write one, To the destination of a copy.
	File, To string
	// Up copies from the active side.
	Up bool
	// Seal seals the messages of an exchange with AES-128-GCM.
	Seal bool

	// Durable makes opens that outlive their connection. ServerPID is the process of the server. Both are of the
	// benchmarks with a server that is no side.
	Durable   bool
	ServerPID int

	// Journal is the journal mode of a database.
	Journal string

	Active bool   // this is the active side
	Peer   string // for the active one, the address of the passive one
}

// outcome is the measurement of one process.
type outcome struct {
	Ops       int
	Took, CPU time.Duration
	P50       time.Duration // of benchmarks that time each operation
	Mallocs   uint64
	Memory    int64 // bytes that all connections added, or bytes of a copy
	// ServerCPU is of the process of a server that is no side.
	ServerCPU time.Duration
}

// side is this process in a run.
type side struct {
	Job
	outcome outcome
	delays  []time.Duration // of each operation, where it is timed
}

// benches are the benchmarks; each is run by both processes.
var benches = map[string]func(*side) error{
	"send":     withLink(sendPingPong),
	"word":     withLink(wordPingPong),
	"write":    withLink(writeStream),
	"window":   withLink(windowPairs),
	"register": withLink(registrations),
	"allocate": withLink(allocations),

	"ping":   (*side).ping,
	"stream": (*side).stream,
	"http":   (*side).http,
	"idle":   (*side).idle,

	"ask":        (*side).ask,
	"file read":  (*side).readFile,
	"file write": (*side).writeFile,
	"drain":      (*side).writeFile,
	"copy":       (*side).copyFile,
	"small":      (*side).smallFiles,

	"open": (*side).opens,
	"lock": (*side).locks,

	"select":  (*side).selects,
	"commit":  (*side).commits,
	"lock by": (*side).askedLocks,
	"fcntl":   (*side).localLocks,

	"speedtest1": (*side).speedtest,

	"read records":  (*side).readRecords,
	"write records": (*side).writeRecords,

	"words":   floorWords,
	"memmove": floorMemmove,
	"futex":   floorFutex,
	"eventfd": floorEventfd,
}

// patience bounds the time of one run; a slower run has missed every bar.
const patience = 3 * time.Minute

// Run starts the two processes and returns their outcome.
func (j Job) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	j.Count = l.Scale(j.Count)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	common, err := openCommon()
	if err != nil {
		return nil, err
	}
	defer closeAll(common)
	var out [2]outcome
	pair := measure.Pair{Cores: [2]int{l.Client, l.Server}, Procs: 1, Files: common}
	err = pair.Run(ctx, j, func(addr string) any {
		j.Active, j.Peer = true, addr
		return j
	}, [2]any{&out[0], &out[1]})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("not done after %v", patience)
	}
	if err != nil {
		return nil, err
	}
	return j.sample(out[0], out[1]), nil
}

// sample is the outcome of both sides.
func (j Job) sample(active, passive outcome) measure.Sample {
	ops := float64(active.Ops)
	if j.Bench == "idle" {
		return measure.Sample{measure.ClientMemory: float64(active.Memory) / ops, measure.ServerMemory: float64(passive.Memory) / ops}
	}
	each := float64(active.Took) / ops
	s := measure.Sample{
		measure.Each: each, measure.ClientCPU: float64(active.CPU) / ops, measure.ServerCPU: float64(passive.CPU) / ops,
	}
	switch {
	case j.Bench != "copy":
		s[measure.Rate] = 1e9 / each
		s[measure.Allocations] = float64(active.Mallocs+passive.Mallocs) / ops
	default:
		s[measure.Throughput] = float64(active.Memory) / each * 1e9
	}
	if slices.Contains([]string{"write", "stream", "file read", "file write", "drain", "memmove", "read records", "write records"}, j.Bench) {
		s[measure.Throughput] = float64(j.Size) / each * 1e9
	}
	if active.P50 > 0 {
		s[measure.P50] = float64(active.P50)
	}
	return s
}

// Play is the main function of one of the two processes.
func Play(text string) error {
	var s side
	if err := json.Unmarshal([]byte(text), &s.Job); err != nil {
		return err
	}
	bench := benches[s.Bench]
	if bench == nil {
		return fmt.Errorf("there is no benchmark %q", s.Bench)
	}
	if err := bench(&s); err != nil {
		return fmt.Errorf("active %v: %w", s.Active, err)
	}
	return json.NewEncoder(os.Stdout).Encode(s.outcome)
}

// ready prints the address of this process, the passive one, for the active one.
func (s *side) ready(addr any) error { return json.NewEncoder(os.Stdout).Encode(addr) }

// peer reads the address that the passive process printed.
func (s *side) peer(addr any) error { return json.Unmarshal([]byte(s.Peer), addr) }

// phases runs f for a tenth of the operations, and then measures f for all operations.
func (s *side) phases(f func(ops int) error) error {
	if err := f(max(s.Count/10, s.Flight, s.Batch, 1)); err != nil {
		return err
	}
	s.delays = s.delays[:0]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := host.CPUTime(), time.Now()
	err := f(s.Count)
	s.outcome = outcome{Ops: s.Count, Took: time.Since(start), CPU: host.CPUTime() - cpu}
	runtime.ReadMemStats(&after)
	s.outcome.Mallocs = after.Mallocs - before.Mallocs
	if len(s.delays) > 0 {
		s.outcome.P50 = measure.Median(s.delays)
	}
	return err
}

// turn is one round trip: the active side sends first, the passive one receives first.
func (s *side) turn(send, receive func() error) error {
	first, second := send, receive
	if !s.Active {
		first, second = receive, send
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

// commonSize is the size of the memory that both processes of a run map.
const commonSize = 64 << 20

// openCommon makes the files that both processes of a run inherit, for the floors: shared
// memory, and an eventfd for each to sleep on.
func openCommon() ([]*os.File, error) {
	fd, err := unix.MemfdCreate("figures", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	files := []*os.File{os.NewFile(uintptr(fd), "memory")}
	if err := files[0].Truncate(commonSize); err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	for range 2 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("eventfd: %w", err), closeAll(files))
		}
		files = append(files, os.NewFile(uintptr(fd), "event"))
	}
	return files, nil
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
