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
	plan, err := measure.ParseFlags(names)
	exitOn(err)
	fmt.Println(plan)
	c := conductor{cores: plan.Cores, scale: plan.Scale}
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
		fmt.Fprintln(os.Stderr, "rsockfigures:", err)
		os.Exit(1)
	}
}

// measure runs all subjects of a row and prints its table, or why there is none.
func (r row) measure(c conductor, rounds int) error {
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
