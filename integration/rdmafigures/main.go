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
	"runtime"
	"slices"
	"strings"

	"lwio/integration/internal/measure"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == sideArgument {
		exitOn(playSide(os.Args[2]))
		return
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	rounds := flag.Int("rounds", 5, "runs of each subject; each figure is their median")
	only := flag.String("only", strings.Join(names, ","), "rows to measure")
	scale := flag.Float64("scale", 1, "how much longer than usual each run is")
	procs := flag.Int("procs", 0, "GOMAXPROCS of both processes; 0 for the number that suits the row")
	flag.Parse()
	wanted := strings.Split(*only, ",")
	for _, n := range wanted {
		if !slices.Contains(names, n) {
			exitOn(fmt.Errorf("there is no row %q, but %s", n, strings.Join(names, ", ")))
		}
	}
	cores, err := measure.Cores()
	exitOn(err)
	if len(cores) < 2 {
		exitOn(fmt.Errorf("two cores are needed, and %d is there", len(cores)))
	}
	fmt.Printf("%s, cores %d and %d, median of %d, in turns\n", runtime.Version(), cores[0], cores[1], *rounds)
	c := conductor{cores: [2]int{cores[0], cores[1]}, scale: *scale, procs: *procs}
	var failed []error
	for _, r := range rows {
		if slices.Contains(wanted, r.name) {
			failed = append(failed, r.measure(c, *rounds))
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
