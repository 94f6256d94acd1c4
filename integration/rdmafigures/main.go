// Command rdmafigures measures the providers of package rdma beside the least that
// a pair of processes can do, which is the floor: two processes, each on a core of
// its own, that wait in the same way. All subjects of a row run in turns, each time
// in fresh processes; a figure is the median of its runs. What counts is the ratio
// to the floor of the same row.
//
//	go run ./rdmafigures [-rounds 5] [-only ROW,...] [-scale 1] [-procs 0]
//
// It sees nothing of a provider but its constructor and package rdma, and every
// provider gets the same benchmark.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"lwio/integration/internal/measure"
)

func main() {
	if job, ok := measure.Side(); ok {
		exitOn(playSide(job))
		return
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	procs := flag.Int("procs", 0, "GOMAXPROCS of both processes; 0 for the number that suits the row")
	plan, err := measure.ParseFlags(names)
	exitOn(err)
	fmt.Println(plan)
	c := conductor{cores: plan.Cores, scale: plan.Scale, procs: *procs}
	var failed []error
	for _, r := range rows {
		if plan.Has(r.name) {
			failed = append(failed, r.measure(c, plan.Rounds))
		}
	}
	exitOn(errors.Join(failed...))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "rdmafigures:", err)
		os.Exit(1)
	}
}

// measure runs all subjects of a row and prints its table. A subject that fails is
// left out of the rounds that remain.
func (r row) measure(c conductor, rounds int) error {
	runs, failures := make([][]run, len(r.subjects)), make([]error, len(r.subjects))
	err := measure.InTurns(rounds, len(r.subjects), func(i int) error {
		if failures[i] != nil {
			return nil
		}
		one, err := c.run(r.subjects[i].job)
		if err != nil {
			failures[i] = fmt.Errorf("%s: %s: %w", r.name, r.subjects[i].name, err)
			return nil
		}
		runs[i] = append(runs[i], one)
		return nil
	})
	return errors.Join(err, r.print(os.Stdout, runs), errors.Join(failures...))
}
