package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"lwio/integration/internal/measure"
)

// job is what the two processes of a run do.
type job struct {
	Bench    string // a key of benches
	Provider string // a key of providers; empty for a floor
	Sleep    bool   // wait asleep instead of polling
	Size     int    // bytes of one operation
	Flight   int    // operations under way at most
	Batch    int    // operations handed over by one call
	Buffers  int    // of Size bytes, used in turns, on each side
	Count    int    // operations measured
	Procs    int    // GOMAXPROCS; 0 means 1, which is what Go takes on one core

	Active bool   // which of the two this is
	Peer   string // for the active one, where the passive one is
}

// outcome is what one process measured.
type outcome struct {
	Ops       int
	Took, CPU time.Duration
	Mallocs   uint64
}

// side is this process in a run.
type side struct {
	job
	outcome outcome
}

// benches are the benchmarks; each is run by both processes.
var benches = map[string]func(*side) error{
	"send":     withLink(sendPingPong),
	"word":     withLink(wordPingPong),
	"write":    withLink(writeStream),
	"window":   withLink(windowPairs),
	"register": withLink(registrations),
	"allocate": withLink(allocations),

	"floor words":       floorWords,
	"floor memmove":     floorMemmove,
	"floor futex":       floorFutex,
	"floor eventfd":     floorEventfd,
	"floor tcp pings":   floorTCPPings,
	"floor tcp stream":  floorTCPStream,
	"floor unix socket": floorUnixPings,
}

// playSide is the main function of one of the two processes.
func playSide(text string) error {
	var s side
	if err := json.Unmarshal([]byte(text), &s.job); err != nil {
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

// ready tells the conductor where this process, the passive one, is.
func (s *side) ready(addr any) error {
	text, err := json.Marshal(addr)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", text)
	return err
}

// peer reads where the passive process said that it is.
func (s *side) peer(addr any) error { return json.Unmarshal([]byte(s.Peer), addr) }

// phases runs f for a tenth of the operations, and then measures it for all.
func (s *side) phases(f func(ops int) error) error {
	if err := f(max(s.Count/10, s.Flight, s.Batch, 1)); err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := measure.SelfCPU(), time.Now()
	err := f(s.Count)
	s.outcome = outcome{Ops: s.Count, Took: time.Since(start), CPU: measure.SelfCPU() - cpu}
	runtime.ReadMemStats(&after)
	s.outcome.Mallocs = after.Mallocs - before.Mallocs
	return err
}
