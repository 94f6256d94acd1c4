package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// footprint has the resources of a process: bytes in RAM and in Go's heap, goroutines,
// descriptors and mappings.
type footprint struct {
	Resident, Heap                   int64
	Goroutines, Descriptors, Mapping int
}

func (f footprint) String() string {
	return fmt.Sprintf("%.1f MiB in RAM, %.1f MiB in the heap, %d goroutines, %d descriptors, %d mappings",
		float64(f.Resident)/(1<<20), float64(f.Heap)/(1<<20), f.Goroutines, f.Descriptors, f.Mapping)
}

// ownFootprint is the footprint of this process without garbage. The entries of a sync.Pool
// go at the second collection, and the memory that they referred to at the third.
func ownFootprint() (f footprint, err error) {
	for range 3 {
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Heap, f.Goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return f, err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return f, err
	}
	f.Descriptors, f.Mapping = len(fds), bytes.Count(maps, []byte("\n"))
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return f, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	_, err = fmt.Sscan(string(rest), &f.Resident)
	f.Resident <<= 10
	return f, err
}

// still is the time without a decrease after which the footprint counts as permanent, and
// look the interval between two readings.
const (
	still = time.Second
	look  = 50 * time.Millisecond
)

// settledFootprint is ownFootprint after the closes in the background have ended.
func settledFootprint() (footprint, error) {
	f, err := ownFootprint()
	for since := time.Now(); err == nil && time.Since(since) < still; {
		time.Sleep(look)
		var next footprint
		if next, err = ownFootprint(); next.Goroutines < f.Goroutines || next.Descriptors < f.Descriptors {
			since = time.Now()
		}
		f = next
	}
	return f, err
}

// The bounds of growth over all rounds. The first two do not count, because pools fill in
// them.
const (
	mostResident = 24 << 20
	mostHeap     = 4 << 20
	mostOthers   = 8
	// The server starts workers as it needs them, and keeps them: some for each file. Three
	// connections a second are lost, so that one goroutine of each would be far more.
	mostGoroutines = 64
)

// grown returns an error that names a resource which grew from round to round.
func grown(process string, rounds []footprint) error {
	if len(rounds) < 4 {
		return nil
	}
	rounds = rounds[2:]
	for what, get := range map[string]struct {
		of   func(f footprint) int64
		most int64
	}{
		"memory in RAM": {func(f footprint) int64 { return f.Resident }, mostResident},
		"the heap":      {func(f footprint) int64 { return f.Heap }, mostHeap},
		"goroutines":    {func(f footprint) int64 { return int64(f.Goroutines) }, mostGoroutines},
		"descriptors":   {func(f footprint) int64 { return int64(f.Descriptors) }, mostOthers},
		"mappings":      {func(f footprint) int64 { return int64(f.Mapping) }, 4 * mostOthers},
	} {
		values := make([]float64, len(rounds))
		for i, f := range rounds {
			values[i] = float64(get.of(f))
		}
		if rise := slope(values) * float64(len(values)-1); rise > float64(get.most) {
			return fmt.Errorf("%s of the %s grew by %.0f in %d rounds: %v", what, process, rise, len(values), values)
		}
	}
	return nil
}

// slope is the rise from each value to the next, by least squares.
func slope(values []float64) float64 {
	n := float64(len(values))
	var x, y, xx, xy float64
	for i, v := range values {
		x, y, xx, xy = x+float64(i), y+v, xx+float64(i)*float64(i), xy+float64(i)*v
	}
	return (n*xy - x*y) / (n*xx - x*x)
}
