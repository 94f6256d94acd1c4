package measure

import (
	"fmt"
	"io"
)

// Cost is the cost of a work that a subject does in addition to another subject, and the floors of this work, all in
// the unit of the figure.
type Cost struct {
	// Added is the figure of the subject less that of the other one.
	Added float64 `json:"added"`
	// Loop is the floor of the work alone, in a loop.
	Loop float64 `json:"loop"`
	// Between is the floor of the work among the other work of two programs, 0 without such a floor.
	Between float64 `json:"between,omitempty"`
}

// OfLoop is the added cost as a multiple of Loop.
func (c Cost) OfLoop() float64 { return multiple(c.Added, c.Loop) }

// OfBetween is the added cost as a multiple of Between.
func (c Cost) OfBetween() float64 { return multiple(c.Added, c.Between) }

// multiple returns v as a multiple of a floor, and 0 if the floor is not more than 0: a difference of figures that vary
// can be less.
func multiple(v, floor float64) float64 {
	if floor <= 0 {
		return 0
	}
	return v / floor
}

// judgeCost compares the figure of a subject with the sum of a PlusFloor bar. The ratio is the cost as a
// multiple of the floor.
func (b Bar) judgeCost(v Verdict, all []Medians) Verdict {
	loop, ok := b.floorOf(all)
	if !ok {
		v.Missing = all[b.floors.one-1].Failure
		return v
	}
	c := &Cost{Added: v.Value - v.Other, Loop: loop}
	if b.floors.with != 0 {
		without, with := all[b.floors.without-1], all[b.floors.with-1]
		before, known := without.Values[b.Figure]
		after, ok := with.Values[b.Figure]
		if !known || !ok {
			v.Missing = without.Failure + with.Failure
			return v
		}
		c.Between = after - before
	}
	v.Cost, v.Ratio = c, c.Added/loop
	v.Pass = v.Ratio <= b.Amount
	if !v.Pass && c.Between > b.Amount*loop && c.Between >= nearFloor*c.Added {
		v.Pass, v.ByFloor = true, fmt.Sprintf("%.2f of %s less %s", c.Between/c.Added, all[b.floors.with-1].Name, all[b.floors.without-1].Name)
	}
	return v
}

// printCosts prints the costs of a row and their floors.
func (t Table) printCosts(out io.Writer) error {
	rows := [][]string{{
		"figure", "without", "with", "added", "floor, in a loop", "times", "floor, between system calls", "times",
	}}
	for _, v := range t.Bars {
		c := v.Cost
		if c == nil {
			continue
		}
		cells := []string{string(v.Figure)}
		for _, n := range []float64{v.Other, v.Value, c.Added, c.Loop} {
			cells = append(cells, v.Figure.Format(n))
		}
		cells = append(cells, fmt.Sprintf("%.2f", c.OfLoop()), "", "")
		if c.Between != 0 {
			cells[6] = v.Figure.Format(c.Between)
		}
		if times := c.OfBetween(); times != 0 {
			cells[7] = fmt.Sprintf("%.2f", times)
		}
		rows = append(rows, cells)
	}
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(out)
	return Markdown(out, 1, rows)
}
