package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"lwio/integration/internal/measure"
)

// reap is how long to wait for a server to reap the child that served a
// connection, so that its CPU time is seen.
const reap = 300 * time.Millisecond

// sample is one measured run.
type sample struct {
	took           time.Duration
	client, server time.Duration // CPU of each process
	machine        time.Duration // CPU of the whole machine, softirqs with it
}

// subject is one of the things that are compared.
type subject struct {
	name   string
	server int // pid of the server process, or 0
	// run does the work once, in a client process whose state is returned.
	run     func() (*os.ProcessState, error)
	samples []sample
}

// command is a run of one process. A standard output that is set is left alone.
func command(cmd func() *exec.Cmd) func() (*os.ProcessState, error) {
	return func() (*os.ProcessState, error) {
		c := cmd()
		if c.Stdout != nil {
			err := c.Run()
			return c.ProcessState, err
		}
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
		}
		return c.ProcessState, nil
	}
}

// measure runs the subject once.
func (s *subject) measure() error {
	server, machine, start := measure.ProcessCPU(s.server), measure.MachineCPU(), time.Now()
	state, err := s.run()
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	took, used := time.Since(start), measure.MachineCPU()-machine
	if s.server != 0 {
		time.Sleep(reap)
	}
	s.samples = append(s.samples, sample{
		took: took, machine: used, server: measure.ProcessCPU(s.server) - server,
		client: state.UserTime() + state.SystemTime(),
	})
	return nil
}

// inTurns measures all subjects, rounds times, one after the other; before is
// called ahead of each run.
func inTurns(rounds int, subjects []*subject, before func() error) error {
	return measure.InTurns(rounds, len(subjects), func(i int) error {
		if err := before(); err != nil {
			return err
		}
		syscall.Sync()
		return subjects[i].measure()
	})
}

// median is the median of a value of the samples.
func (s *subject) median(value func(sample) time.Duration) time.Duration {
	v := make([]time.Duration, 0, len(s.samples))
	for _, m := range s.samples {
		v = append(v, value(m))
	}
	return measure.Median(v)
}

func (s *subject) took() time.Duration {
	return s.median(func(m sample) time.Duration { return m.took })
}

// table prints the subjects: amount per second of unit, CPU, and the ratio of the
// rate to that of the first subject.
func table(title string, subjects []*subject, amount float64, unit string) error {
	fmt.Printf("\n%s (median of %d, in turns)\n", title, len(subjects[0].samples))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tseconds\tclient CPU s\tserver CPU s\tmachine CPU s\tof the first\t\t\n", unit)
	for _, s := range subjects {
		fmt.Fprintf(w, "%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t %s\t\n",
			amount/s.took().Seconds(), s.took().Seconds(),
			s.median(func(m sample) time.Duration { return m.client }).Seconds(),
			s.median(func(m sample) time.Duration { return m.server }).Seconds(),
			s.median(func(m sample) time.Duration { return m.machine }).Seconds(),
			subjects[0].took().Seconds()/s.took().Seconds(), s.name)
	}
	return w.Flush()
}

// readAll reads a file, so that its pages are in the cache.
func readAll(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		if n, err := f.Read(buf); n == 0 {
			if err != nil && err.Error() != "EOF" {
				return err
			}
			return nil
		}
	}
}
