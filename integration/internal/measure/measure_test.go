package measure

import (
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

func TestMedian(t *testing.T) {
	for want, values := range map[int][]int{1: {1}, 2: {2, 1}, 3: {9, 1, 3}, 5: {7, 1, 5, 2}} {
		if got := Median(values); got != want {
			t.Errorf("median of %v is %d", values, got)
		}
	}
}

// Every subject runs once a round, in more than one order.
func TestInTurns(t *testing.T) {
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

// A command that is started on a core may use that alone, and this process what it
// could use before.
func TestStartOn(t *testing.T) {
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

// Each number comes once, and no more at a time than wanted.
func TestEach(t *testing.T) {
	const n, width = 100, 3
	var now, most atomic.Int32
	seen := make([]atomic.Int32, n)
	Each(n, width, func(i int) {
		most.Store(max(most.Load(), now.Add(1)))
		seen[i].Add(1)
		now.Add(-1)
	})
	for i := range seen {
		if got := seen[i].Load(); got != 1 {
			t.Errorf("%d came %d times", i, got)
		}
	}
	if got := most.Load(); got > width {
		t.Errorf("%d at a time", got)
	}
	Each(0, width, func(int) { t.Error("there is none") })
}
