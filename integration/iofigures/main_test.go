package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/integration/skips"
)

// TestMain makes the test binary a client or a peer, if it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == clientArgument || os.Args[1] == peerArgument) {
		main()
		return
	}
	os.Exit(m.Run())
}

// tests run from the directory of the package, the program from the one above.
func testLab(t *testing.T) *lab {
	t.Helper()
	t.Chdir("..")
	l, err := newLab(options{rounds: 1, runtime: 20 * time.Millisecond, dir: t.TempDir(), size: 16 * mib})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(l.dir); !os.IsNotExist(err) {
			t.Errorf("the lab is still there: %v", err)
		}
	})
	return l
}

// TestRows runs every subject for a moment: the figures are not looked at, but that
// there are some.
func TestRows(t *testing.T) {
	l := testLab(t)
	for _, r := range rows {
		for _, s := range r.subjects {
			t.Run(r.name+"/"+s.name, func(t *testing.T) {
				j := s.job
				j.Lanes = min(j.Lanes, 20)
				if err := missingNBD(); j.Way == wayNBD && err != nil {
					skips.Skip(t, err)
				}
				o, err := l.run(t.Context(), j)
				for l := *l; errors.Is(err, errIdle) && l.runtime < patience; { // it ends on time, whatever it has done
					l.runtime *= 4
					o, err = l.run(t.Context(), j)
				}
				if err != nil {
					t.Fatal(err)
				}
				if o.Ops <= 0 || o.Took <= 0 || (o.P50 > 0) != j.timed() {
					t.Errorf("%+v", o)
				}
			})
		}
	}
}

// Each way in each mode is what the client uses: a server that is not there, a
// provider that is none, and a style that is none fail.
func TestFailure(t *testing.T) {
	l := testLab(t)
	for what, j := range map[string]job{
		"a way":   {Way: "none", Size: 1, Depth: 1},
		"a style": {Way: wayShm, Style: "none", Size: 1, Depth: 1},
		"a mode":  {Way: wayShm, Mode: "none", Style: batch, Size: 1, Depth: 1},
	} {
		if _, err := l.run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("%s that is none: %v", what, err)
		}
	}
	r := row{name: "r", subjects: []subject{{"a", job{Way: "none", Size: 1, Depth: 1}}}, bars: []bar{{0, best, rate, atLeast, 1}}}
	got, err := r.measure(t.Context(), l)
	if err != nil || got.Bars[0].Pass || !strings.Contains(got.Bars[0].Missing, "none") {
		t.Errorf("a row that cannot be: %+v, %v", got, err)
	}
}

// A missing program ends the search for peers, not the program.
func TestMissingNBD(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := missingNBD(); err == nil || !strings.Contains(err.Error(), "nbdkit") {
		t.Errorf("without programs: %v", err)
	}
}

func TestJudge(t *testing.T) {
	all := []medians{
		{Name: "local", Rate: 100, ClientCPU: 10, P50: 1},
		{Name: "ours", Rate: 80, ClientCPU: 5, P50: 1.5},
		{Name: "broken", Failure: "why"},
	}
	for _, c := range []struct {
		bar  bar
		pass bool
		why  string
	}{
		{bar{1, 0, rate, atLeast, 0.8}, true, ""},
		{bar{1, 0, rate, atLeast, 0.81}, false, ""},
		{bar{1, best, rate, atLeast, 0.8}, true, ""},
		{bar{1, best, rate, atLeast, 0.81}, false, ""},
		{bar{1, 0, cpu, atMost, 0.5}, true, ""},
		{bar{1, 0, cpu, atMost, 0.49}, false, ""},
		{bar{1, 0, p50, atMost, 1.5}, true, ""},
		{bar{1, 0, p50, atMost, 1.49}, false, ""},
		{bar{2, 0, rate, atLeast, 0}, false, "why"},
		{bar{0, 2, rate, atLeast, 0}, false, "why"},
	} {
		if v := c.bar.judge("row", all); v.Pass != c.pass || v.Missing != c.why {
			t.Errorf("%+v: %+v", c.bar, v)
		}
	}
}

// Medians are those of the runs, in the units that they are printed in.
func TestSummarize(t *testing.T) {
	run := func(ops int64, cpu time.Duration) outcome {
		return outcome{Ops: ops, Took: time.Second, Client: cpu, Server: 2 * cpu, P50: cpu / 10}
	}
	s := subject{"s", job{Size: 10}}
	got := s.summarize([]outcome{run(1000, time.Second), run(2000, time.Second), run(9000, time.Second)}, nil)
	want := medians{Name: "s", Rate: 2000, Bytes: 20000, P50: 1e5, ClientCPU: 500, ServerCPU: 1000}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestReadFio(t *testing.T) {
	const report = `fio: connected
{"jobs": [{"error": 0, "job_runtime": 2000, "usr_cpu": 10.0, "sys_cpu": 40.0,
  "read": {"total_ios": 300, "runtime": 1500}, "write": {"total_ios": 0, "runtime": 0}}]}`
	got, err := readFio(report, false)
	if want := (outcome{Ops: 300, Took: 1500 * time.Millisecond, Client: time.Second}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{", `{"jobs": []}`, strings.Replace(report, `"error": 0`, `"error": 5`, 1)} {
		if _, err := readFio(bad, false); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := readFio(report, true); !errors.Is(err, errIdle) {
		t.Errorf("reads pass for writes: %v", err)
	}
}

// The program prints JSON for those who ask, and refuses rows that are none.
func TestProgram(t *testing.T) {
	t.Chdir("..")
	program := filepath.Join(t.TempDir(), "iofigures")
	if out, err := exec.Command("go", "build", "-o", program, "./iofigures").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	flags := []string{"-rounds", "1", "-runtime", "20ms", "-size", "2", "-dir", t.TempDir()}
	out, err := exec.Command(program, append(flags, "-json", "-only", "shm-1")...).Output()
	var tables []table
	if err == nil {
		err = json.Unmarshal(out, &tables)
	}
	if err != nil || len(tables) != 1 || len(tables[0].Bars) != 1 || tables[0].Bars[0].Ratio <= 0 {
		t.Errorf("%v: %s", err, out)
	}
	out, err = exec.Command(program, append(flags, "-only", "shm-1")...).Output()
	if err != nil || !strings.Contains(string(out), "at most 1.8") {
		t.Errorf("%v: %s", err, out)
	}
	// Who stops reading gets no more, and nothing is left.
	dir := flags[len(flags)-1]
	cmd := exec.Command(program, append(flags, "-only", "shm-1,shm-32")...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := errors.Join(r.Close(), cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if cmd.Wait() == nil {
		t.Error("it writes to nobody")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	if err := exec.Command(program, append(flags, "-only", "none")...).Run(); err == nil {
		t.Error("a row that is none is taken")
	}
}

// When the time is over it stays over, and a lane asks for nothing more; but that is not
// before it has done as many operations as it must. Many lanes together look at the clock no
// less often than one.
func TestMeter(t *testing.T) {
	for _, tt := range []struct {
		lanes        int
		least, given int64
	}{{1, 0, 63}, {0, 100, 127}, {2, 0, 31}, {1000, 0, 0}, {1000, 5, 5}} {
		j := deep
		j.Lanes, j.Span = tt.lanes, mib
		m := j.newMeter(0, 0)
		m.least = tt.least
		given := int64(0)
		for _, ok := m.next(); ok; _, ok = m.next() {
			given++
			m.ops++
		}
		if given != tt.given {
			t.Errorf("%d lanes, at least %d: %d operations, want %d", tt.lanes, tt.least, given, tt.given)
		}
		for range 2 * unlooked {
			if _, ok := m.next(); ok {
				t.Fatalf("%d lanes, at least %d: the time goes on", tt.lanes, tt.least)
			}
		}
	}
}
