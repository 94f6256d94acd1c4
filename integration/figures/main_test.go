package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
	"lwio/internal/test/skip"
	"lwio/rdma"
)

// TestMain runs one of the two processes of a run, if the test binary is called for that.
func TestMain(m *testing.M) {
	if _, ok := measure.Side(); ok {
		main()
		return
	}
	os.Exit(m.Run())
}

// testLab is a lab for short runs. Tests run in the directory of the package, the program
// in its parent.
func testLab(t *testing.T) *measure.Lab {
	t.Helper()
	t.Chdir("..")
	l, err := measure.NewLab(measure.Plan{Rounds: 1, Runtime: 20 * time.Millisecond, Parent: t.TempDir(), Size: 16 * mib})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(l.Dir); !os.IsNotExist(err) {
			t.Errorf("the lab's directory is still there: %v", err)
		}
	})
	return l
}

// short is a job that is short in a test.
func short(j measure.Job) measure.Job {
	shorter := func(s sides.Job) sides.Job {
		s.Size, s.Conns, s.Heavy = min(s.Size, mib), min(s.Conns, 40), false
		return s
	}
	switch j := j.(type) {
	case bench:
		j.Conns = min(j.Conns, 20)
		return j
	case idle:
		j.Conns = 20
		return j
	case flood:
		j.Clients, j.Peers, j.Lead = 20, j.Peers/10, j.Lead/10
		return j
	case database:
		j.Size = min(j.Size, 1)
		return j
	case sides.Job:
		return shorter(j)
	case tcpJob:
		j.Job = shorter(j.Job)
		return j
	}
	return j
}

// Every subject of every area runs for a short time and has figures.
func TestRowsHaveFigures(t *testing.T) {
	for area, prepare := range areas {
		if area == "compare" {
			continue
		}
		t.Run(area, func(t *testing.T) {
			l := testLab(t)
			rows, err := prepare(l, options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				for _, s := range r.Subjects {
					t.Run(r.Name+"/"+s.Name, func(t *testing.T) { runSubject(t, l, s.Job) })
				}
			}
		})
	}
}

func runSubject(t *testing.T, l *measure.Lab, j measure.Job) {
	switch j := j.(type) {
	case fio:
		if err := missingNBD(); err != nil {
			skip.Test(t, "a program is missing", err)
		}
	case copying:
		if _, err := exec.LookPath("smbclient"); err != nil && j.tool == smbclient {
			skip.Test(t, "a program is missing", err)
		}
	}
	got, err := short(j).Run(t.Context(), l)
	for l := *l; errors.Is(err, errIdle) && l.Runtime < measure.Patience; { // fio ends on time, also without an operation
		l.Runtime *= 4
		got, err = short(j).Run(t.Context(), &l)
	}
	if err != nil && strings.Contains(err.Error(), rdma.StatusNotSupported.Error()) {
		return // a provider may lack a verb
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 2 {
		t.Errorf("%v", got)
	}
	for f, v := range got {
		if v < 0 || v == 0 && (f == measure.Rate || f == measure.Each || f == measure.Throughput) {
			t.Errorf("%s is %v", f, v)
		}
	}
}

// Each bar is of figures and subjects that its row has.
func TestBarsNameSubjects(t *testing.T) {
	for _, rows := range [][]measure.Row{ioRows, rdmaRows, sockRows, databaseRows} {
		for _, r := range rows {
			for _, b := range r.Bars {
				if b.Ours >= len(r.Subjects) || b.Beside >= len(r.Subjects) || b.Amount <= 0 {
					t.Errorf("%s: %+v", r.Name, b)
				}
			}
		}
	}
}

// A transport, an engine, a mode, a benchmark and a provider that do not exist fail and are named.
func TestUnknownJobsFail(t *testing.T) {
	l := testLab(t)
	if err := build(l); err != nil {
		t.Fatal(err)
	}
	for name, j := range map[string]measure.Job{
		"transport": deep.via("none", polling), "engine": deep.via(viaShm, polling).by("none"), "mode": deep.via(viaShm, "none"),
		"benchmark": sides.Job{Bench: "none"}, "provider": by("none", messages), "socket": by("none", pings),
	} {
		if _, err := j.Run(t.Context(), l); err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A missing program makes a subject unmeasured, and is named.
func TestMissingNBDIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := missingNBD(); err == nil || !strings.Contains(err.Error(), "nbdkit") {
		t.Errorf("without programs: %v", err)
	}
}

// The report of fio is read after other lines, and one with an error or without operations is
// refused.
func TestReadFioSkipsOtherLines(t *testing.T) {
	const report = `fio: connected
{"jobs": [{"error": 0, "job_runtime": 2000, "usr_cpu": 10.0, "sys_cpu": 40.0,
  "read": {"total_ios": 300, "runtime": 1500}, "write": {"total_ios": 0, "runtime": 0}}]}`
	if ops, seconds, cpu, err := readFio(report, false); err != nil || ops != 300 || seconds != 1.5 || cpu != 1 {
		t.Errorf("%v operations, %v s, %v s of CPU, %v", ops, seconds, cpu, err)
	}
	for _, bad := range []string{"", "{", `{"jobs": []}`, strings.Replace(report, `"error": 0`, `"error": 5`, 1)} {
		if _, _, _, err := readFio(bad, false); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, _, _, err := readFio(report, true); !errors.Is(err, errIdle) {
		t.Errorf("reads pass for writes: %v", err)
	}
}

// A report of lwio bench with failed operations, or without operations, is no measurement.
func TestReadBenchRefusesFailures(t *testing.T) {
	const good = `[{"iops": 10, "bytes_per_second": 20, "client_cpu_us_per_op": 3, "server_cpu_us_per_op": null, "errors": 0}]`
	if s, err := readBench(good); err != nil || s[measure.Rate] != 10 || s[measure.ClientCPU] != 3000 || len(s) != 3 {
		t.Errorf("%v, %v", s, err)
	}
	for _, bad := range []string{"", "[]", strings.Replace(good, `"errors": 0`, `"errors": 1`, 1), strings.Replace(good, "10", "0", 1)} {
		if _, err := readBench(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// The program prints tables and bars, or JSON, refuses unknown areas, rows and flags, and leaves
// no file behind.
func TestProgramPrintsTablesAndJSON(t *testing.T) {
	t.Chdir("..")
	dir := t.TempDir()
	flags := []string{"--rounds", "1", "--runtime", "20ms", "--size", "2", "--dir", dir}
	figures := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), &out, append(args, flags...))
		return out.String(), err
	}
	out, err := figures("io", "--only", "shm-1", "--json")
	var tables []measure.Table
	if err == nil {
		err = json.Unmarshal([]byte(out), &tables)
	}
	if err != nil || len(tables) != 1 || len(tables[0].Bars) != 1 || tables[0].Bars[0].Ratio <= 0 {
		t.Errorf("%v: %s", err, out)
	}
	if out, err = figures("io", "--only", "shm-1"); err != nil || !strings.Contains(out, "at most 1.8") {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{{}, {"none"}, {"io", "--only", "none"}, {"io", "--old", "lwio"}, {"compare"}, {"io", "--rounds", "0", "more"}} {
		if out, err := figures(args...); err == nil {
			t.Errorf("%v is accepted: %s", args, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// A reader that closes the pipe ends the program, which leaves no file behind.
func TestClosedPipeEndsProgram(t *testing.T) {
	t.Chdir("..")
	dir := t.TempDir()
	program := filepath.Join(t.TempDir(), "figures")
	if out, err := exec.Command("go", "build", "-o", program, "./figures").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "io", "--rounds", "1", "--runtime", "20ms", "--size", "2", "--dir", dir, "--only", "shm-1,shm-32")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := errors.Join(r.Close(), cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if cmd.Wait() == nil {
		t.Error("it succeeded without a reader")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// An interrupt ends the measurement, and leaves no file behind.
func TestInterruptEndsMeasurement(t *testing.T) {
	t.Chdir("..")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, os.Stderr, []string{"rdma", "--only", "shm-word", "--dir", dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// Every load of a comparison has all figures. The test measures the rows of one transport and
// completion mode, and of opens.
func TestCompareRowsHaveAllFigures(t *testing.T) {
	l := testLab(t)
	if err := build(l); err != nil {
		t.Fatal(err)
	}
	rows, err := prepareCompare(l, options{old: binary(l), new: binary(l)})
	if err != nil || len(rows) != 42 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range append(rows[:len(loads())], rows[len(rows)-2:]...) {
		got, err := row.Subjects[0].Job.Run(t.Context(), l)
		if err != nil || got[measure.Rate] <= 0 || got[measure.ClientCPU] <= 0 || got[measure.ServerCPU] <= 0 || got[measure.P50] <= 0 {
			t.Errorf("%s: %v, %v", row.Name, got, err)
		}
	}
}

// A figure is worse if it is beyond the tolerance and the spread of the rounds.
func TestComparisonIsWorseBeyondToleranceAndSpread(t *testing.T) {
	row := func(older, newer []float64) measure.Table {
		runs := func(rates []float64) (all []measure.Sample) {
			for _, r := range rates {
				all = append(all, measure.Sample{measure.Rate: r})
			}
			return all
		}
		return measure.Table{Row: "row", Subjects: []measure.Medians{
			{Values: measure.Sample{measure.Rate: older[0]}, Runs: runs(older)}, {Values: measure.Sample{measure.Rate: newer[0]}, Runs: runs(newer)},
		}}
	}
	for _, c := range []struct {
		older, newer []float64
		worse        bool
	}{
		{[]float64{100, 200}, []float64{98, 196}, false},
		{[]float64{100, 200}, []float64{96, 192}, true},
		{[]float64{100, 100, 100}, []float64{90, 96, 106}, false},
		{[]float64{100}, []float64{120}, false},
	} {
		got := changes(row(c.older, c.newer))
		if len(got) != 1 || got[0].Worse != c.worse {
			t.Errorf("%v after %v: %+v", c.newer, c.older, got)
		}
		var out strings.Builder
		if err := printComparison(&out, []measure.Table{row(c.older, c.newer)}); errors.Is(err, errWorse) != c.worse {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}
