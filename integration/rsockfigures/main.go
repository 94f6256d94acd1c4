// Command rsockfigures measures sockets over RDMA beside the sockets of the system: two
// processes, each on a core of its own. All subjects of a row run in turns, each time in
// fresh processes; a figure is the median of its runs. What counts is the ratio to the
// first subject of the same row.
//
//	go run ./rsockfigures [-rounds 5] [-only ROW,...] [-scale 1]
//
// It sees nothing of package rsock but its constructors and net.Conn.
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
	dir, err := os.MkdirTemp("", "rsockfigures-")
	exitOn(err)
	fmt.Printf("%s, cores %d and %d, median of %d, in turns\n", runtime.Version(), cores[0], cores[1], *rounds)
	c := &conductor{cores: [2]int{cores[0], cores[1]}, scale: *scale, dir: dir}
	var failed []error
	for _, r := range rows {
		if slices.Contains(wanted, r.name) {
			failed = append(failed, r.measure(c, *rounds))
		}
	}
	exitOn(errors.Join(append(failed, os.RemoveAll(dir))...))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "rsockfigures:", err)
		os.Exit(1)
	}
}

// measure runs all subjects of a row and prints its table.
func (r row) measure(c *conductor, rounds int) error {
	runs := make([][]run, len(r.subjects))
	err := measure.InTurns(rounds, len(r.subjects), func(i int) error {
		one, err := c.run(r.subjects[i].job)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", r.name, r.subjects[i].name, err)
		}
		runs[i] = append(runs[i], one)
		return nil
	})
	if err != nil {
		return err
	}
	return r.print(os.Stdout, runs)
}
