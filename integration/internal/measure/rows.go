package measure

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// Plan is what the flags of a program say that measures rows with a Pair.
type Plan struct {
	Rounds int     // runs of each subject
	Scale  float64 // how much longer than usual each run is
	Cores  [2]int  // of the two sides
	rows   []string
}

// ParseFlags parses the command line, with the flags that the program has added and
// those of the plan, and finds two cores. names are those of all rows.
func ParseFlags(names []string) (Plan, error) {
	var p Plan
	flag.IntVar(&p.Rounds, "rounds", 5, "runs of each subject; each figure is their median")
	flag.Float64Var(&p.Scale, "scale", 1, "how much longer than usual each run is")
	only := flag.String("only", strings.Join(names, ","), "rows to measure")
	flag.Parse()
	var err error
	if p.rows, err = Choose(*only, names); err != nil {
		return p, err
	}
	cores, err := Cores()
	if err != nil {
		return p, err
	}
	if len(cores) < 2 {
		return p, fmt.Errorf("two cores are needed, and %d is there", len(cores))
	}
	p.Cores = [2]int(cores)
	return p, nil
}

// Has tells whether a row is to be measured.
func (p Plan) Has(row string) bool { return slices.Contains(p.rows, row) }

// String says under what conditions all figures are taken.
func (p Plan) String() string {
	return fmt.Sprintf("%s, cores %d and %d, median of %d, in turns", runtime.Version(), p.Cores[0], p.Cores[1], p.Rounds)
}

// Choose splits a list with commas, all of which must be names.
func Choose(list string, names []string) ([]string, error) {
	wanted := strings.Split(list, ",")
	for _, n := range wanted {
		if !slices.Contains(names, n) {
			return nil, fmt.Errorf("there is no row %q, but %s", n, strings.Join(names, ", "))
		}
	}
	return wanted, nil
}

// MedianOf is the median of a value of runs, of which there must be one at least.
func MedianOf[R any](runs []R, value func(R) float64) float64 {
	v := make([]float64, len(runs))
	for i, r := range runs {
		v[i] = value(r)
	}
	return Median(v)
}

// Duration prints nanoseconds in a unit that suits.
func Duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	case ns >= 1e4:
		return fmt.Sprintf("%.1f us", ns/1e3)
	case ns >= 1e3:
		return fmt.Sprintf("%.2f us", ns/1e3)
	}
	return fmt.Sprintf("%.1f ns", ns)
}

// Passed is the text of a bar with what came of it.
func Passed(bar string, ok bool) string {
	if ok {
		return bar + ": pass"
	}
	return bar + ": miss"
}
