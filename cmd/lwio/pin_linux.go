package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// pinned calls start, which starts a process. From then on this process keeps to one CPU
// and the new process to another.
func pinned(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return fmt.Errorf("bench: pin: %w", err)
	}
	var cpus []int
	for i := 0; i < len(may)*64 && len(cpus) < 2; i++ {
		if may.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	if len(cpus) < 2 {
		return errors.New("bench: --pin needs two CPUs")
	}
	if err := pinThread(0, cpus[1]); err != nil {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("bench: pin: %w", err)
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := pinThread(tid, cpus[0]); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	runtime.GOMAXPROCS(1)
	return nil
}

// pinThread gives a thread one CPU; 0 is the calling thread.
func pinThread(tid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("bench: pin to CPU %d: %w", cpu, err)
	}
	return nil
}
