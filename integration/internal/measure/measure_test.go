package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMedianIsMiddleValue(t *testing.T) {
	for want, values := range map[int][]int{1: {1}, 2: {2, 1}, 3: {9, 1, 3}, 5: {7, 1, 5, 2}} {
		if got := Median(values); got != want {
			t.Errorf("median of %v is %d", values, got)
		}
	}
}

// Every subject runs once per round, in more than one order.
func TestInTurnsRunsEachSubjectOncePerRound(t *testing.T) {
	const rounds, n = 30, 4
	var ran []int
	if err := InTurns(rounds, n, func(i int) error { ran = append(ran, i); return nil }); err != nil {
		t.Fatal(err)
	}
	orders := make(map[string]bool)
	for r := range rounds {
		order := ran[r*n : (r+1)*n]
		seen := make(map[int]bool)
		for _, i := range order {
			seen[i] = true
		}
		if len(seen) != n {
			t.Fatalf("round %d: %v", r, order)
		}
		orders[fmt.Sprint(order)] = true
	}
	if len(orders) == 1 {
		t.Error("all rounds have one order")
	}
}

// A command that is started on a core can use only that core. The cores of this process do
// not change.
func TestStartOnKeepsToOneCore(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	for _, core := range cores {
		cmd := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
		var out strings.Builder
		cmd.Stdout = &out
		if err := StartOn(cmd, core); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(out.String()); got[1] != fmt.Sprint(core) {
			t.Errorf("on core %d: %q", core, got)
		}
	}
	if after, err := Cores(); err != nil || len(after) != len(cores) {
		t.Errorf("cores are %v, %v afterwards", after, err)
	}
}

// A bar passes by its ratio, by its amount, or by a floor that misses the bar too.
func TestBarsPassByRatioAmountOrFloor(t *testing.T) {
	all := []Medians{
		{Name: "floor", Values: Sample{Rate: 100, ClientCPU: 10, P50: 1, ServerMemory: 5}},
		{Name: "ours", Values: Sample{Rate: 80, ClientCPU: 5, P50: 1.5, ServerMemory: 6}},
		{Name: "broken", Failure: "why"},
		{Name: "plain", Values: Sample{P50: 1}},
	}
	for _, c := range []struct {
		bar           Bar
		pass, byFloor bool
		missing       string
	}{
		{Bar{1, 0, Rate, AtLeast, 0.8, floors{}}, true, false, ""},
		{Bar{1, 0, Rate, AtLeast, 0.81, floors{}}, false, false, ""},
		{Bar{1, Best, Rate, AtLeast, 0.8, floors{}}, true, false, ""},
		{Bar{1, Best, Rate, AtLeast, 0.81, floors{}}, false, false, ""},
		{Bar{1, 0, ClientCPU, AtMost, 0.5, floors{}}, true, false, ""},
		{Bar{1, 0, ClientCPU, AtMost, 0.49, floors{}}, false, false, ""},
		{Bar{1, 0, P50, Plus, 0.5, floors{}}, true, false, ""},
		{Bar{1, 0, P50, Plus, 0.49, floors{}}, false, false, ""},
		{Bar{1, 2, P50, PlusFloor, 1.3, floors{}}.Or(0), false, false, "why"},
		{Bar{1, 3, P50, PlusFloor, 0.5, floors{}}.Or(0), true, false, ""},
		{Bar{1, 3, P50, PlusFloor, 0.49, floors{}}.Or(0), false, false, ""},
		{Bar{1, 3, P50, PlusFloor, 1.3, floors{}}.Or(2), false, false, "why"},
		{Bar{1, None, ServerMemory, AtMost, 6, floors{}}, true, false, ""},
		{Bar{1, None, ServerMemory, AtMost, 5.9, floors{}}, false, false, ""},
		{Bar{2, 0, Rate, AtLeast, 0, floors{}}, false, false, "why"},
		{Bar{0, 2, Rate, AtLeast, 0, floors{}}, false, false, "why"},
		// The floor of 100 misses the bar, which is twice the other rate. 80 is less than
		// nine tenths of the floor, 100 is not.
		{Bar{1, 1, Rate, AtLeast, 2, floors{}}.Or(0), false, false, ""},
		{Bar{0, 1, Rate, AtLeast, 2, floors{}}.Or(0), true, true, ""},
		// A floor that passes the bar does not replace it.
		{Bar{1, 1, Rate, AtLeast, 1.1, floors{}}.Or(0), false, false, ""},
		{Bar{1, 0, P50, AtMost, 0.9, floors{}}.Or(1), true, true, ""},
	} {
		v := c.bar.judge("row", all)
		if v.Pass != c.pass || (v.ByFloor != "") != c.byFloor || v.Missing != c.missing {
			t.Errorf("%+v: %+v", c.bar, v)
		}
	}
}

// The cost of a work passes by the floor in a loop, or by nine tenths of the floor between system calls if that misses
// the bar too. Both ratios are printed.
func TestCostPassesByEitherFloor(t *testing.T) {
	const plain, loop, without = 10, 2, 7
	for _, c := range []struct {
		sealed, with  float64
		pass, byFloor bool
		printed       string
	}{
		{12, 9, true, false, "2.00 us | 2.00 us | 1.00 | 2.00 us | 1.00"},
		{12.6, 9, true, false, "2.60 us | 2.00 us | 1.30 | 2.00 us | 1.30"},
		{12.7, 9, false, false, "2.70 us | 2.00 us | 1.35 | 2.00 us | 1.35"},
		{14, 9.5, false, false, "4.00 us | 2.00 us | 2.00 | 2.50 us | 1.60"}, // the floor passes the bar
		{14, 10.5, false, false, "4.00 us | 2.00 us | 2.00 | 3.50 us | 1.14"},
		{14, 10.7, true, true, "4.00 us | 2.00 us | 2.00 | 3.70 us | 1.08"},
		{14, 6, false, false, "4.00 us | 2.00 us | 2.00 | -1000.0 ns | "},
	} {
		all := []Medians{{Name: "plain"}, {Name: "sealed"}, {Name: "loop"}, {Name: "without"}, {Name: "with"}}
		for i, v := range []float64{plain, c.sealed, loop, without, c.with} {
			all[i].Values = Sample{P50: v * 1000}
		}
		bar := Bar{Ours: 1, Beside: 0, Figure: P50, Kind: PlusFloor, Amount: 1.3}.Or(2).Between(3, 4)
		v := bar.judge("row", all)
		if v.Pass != c.pass || (v.ByFloor != "") != c.byFloor {
			t.Errorf("%+v: %+v", c, v)
		}
		var out strings.Builder
		if err := (Table{Bars: []Verdict{v}}).printCosts(&out); err != nil {
			t.Fatal(err)
		}
		line := out.String()[strings.LastIndex(strings.TrimSpace(out.String()), "\n")+1:]
		if got := strings.Join(strings.Fields(line), " "); !strings.Contains(got, strings.TrimSpace(c.printed)) {
			t.Errorf("%+v: %s", c, got)
		}
		all[3].Values, all[3].Failure = nil, "why"
		if v := bar.judge("row", all); v.Missing != "why" || v.Pass {
			t.Errorf("without a floor: %+v", v)
		}
	}
}

// constant is a job with a fixed outcome.
type constant struct {
	sample Sample
	err    error
	runs   *int
}

func (c constant) Run(context.Context, *Lab) (Sample, error) {
	*c.runs++
	return c.sample, c.err
}

// A subject that fails is left out of the rounds that remain, and the tables show all subjects
// and bars.
func TestRowMeasuresAndPrints(t *testing.T) {
	var good, bad int
	r := Row{"row", "Title", []Subject{
		{"floor", constant{Sample{Rate: 1000, ClientCPU: 1500}, nil, &good}},
		{"ours", constant{nil, errors.New("no\nway"), &bad}},
	}, []Bar{{0, 0, Rate, AtLeast, 1, floors{}}, {1, 0, Rate, AtLeast, 1, floors{}}}}
	table, err := r.Measure(t.Context(), &Lab{Plan: Plan{Rounds: 3}})
	if err != nil || good != 3 || bad != 1 {
		t.Fatalf("%v, %d and %d runs", err, good, bad)
	}
	var out strings.Builder
	if err := errors.Join(table.Print(&out), PrintBars(&out, []Table{table})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1000/s", "1.50 us", "ours: not measured: no way", "| pass", "| not measured", "at least 1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Each duration has its unit.
func TestDurationHasAFittingUnit(t *testing.T) {
	var got []string
	for _, ns := range []float64{3.14, 999, 1000, 9990, 12_340, 1e6, 2.5e9} {
		got = append(got, Duration(ns))
	}
	const want = "3.1 ns, 999.0 ns, 1.00 us, 9.99 us, 12.3 us, 1.00 ms, 2.50 s"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// The CPU time of a process grows with its work; a process that does not exist has none.
func TestProcessCPUGrows(t *testing.T) {
	first := ProcessCPU(os.Getpid())
	for ProcessCPU(os.Getpid()) <= first {
		_ = make([]byte, 1<<20)
	}
	if first <= 0 || ProcessCPU(0) != 0 {
		t.Errorf("%v, and %v of no process", first, ProcessCPU(0))
	}
}
