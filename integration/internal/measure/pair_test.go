package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// sideJob is what a side of TestPair does.
type sideJob struct {
	Name, Peer string
	Fail       bool
}

// The test's own binary plays the two processes.
func TestMain(m *testing.M) {
	text, ok := Side()
	if !ok {
		os.Exit(m.Run())
	}
	if err := playSide(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// playSide prints where it is, if no peer is known, and then all it knows.
func playSide(text string) error {
	var j sideJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if j.Fail {
		return errors.New(j.Name + " is not well")
	}
	if j.Peer == "" {
		fmt.Println("at home")
	}
	inherited, err := io.ReadAll(io.NewSectionReader(os.NewFile(3, "inherited"), 0, 100))
	if err != nil {
		return err
	}
	cores, err := Cores()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode([]string{
		j.Name, j.Peer, os.Getenv("GOMAXPROCS"), fmt.Sprint(cores), string(inherited),
	})
}

// Each side has its job, its core and what it inherits; the active one learns where
// the passive one is.
func TestPair(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("old money"); err != nil {
		t.Fatal(err)
	}
	p := Pair{Cores: [2]int{cores[0], cores[len(cores)-1]}, Procs: 3, Files: []*os.File{file}}
	var active, passive []string
	err = p.Run(t.Context(), sideJob{Name: "passive"}, func(line string) any {
		return sideJob{Name: "active", Peer: line}
	}, [2]any{&active, &passive})
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[*[]string]string{
		&active:  fmt.Sprintf("[active at home 3 [%d] old money]", p.Cores[0]),
		&passive: fmt.Sprintf("[passive  3 [%d] old money]", p.Cores[1]),
	} {
		if fmt.Sprint(*got) != want {
			t.Errorf("%v, want %s", *got, want)
		}
	}
}

// A run of which one side fails says what that side said.
func TestPairFails(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name            string
		passive, active bool
	}{{"passive", true, false}, {"active", false, true}} {
		var out [2][]string
		err := Pair{Cores: [2]int{cores[0], cores[0]}, Procs: 1, Files: []*os.File{os.Stdin}}.Run(t.Context(), sideJob{Name: "passive", Fail: c.passive}, func(line string) any {
			return sideJob{Name: "active", Peer: line, Fail: c.active}
		}, [2]any{&out[0], &out[1]})
		if err == nil || !strings.Contains(err.Error(), c.name+" is not well") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestChoose(t *testing.T) {
	names := []string{"ping", "stream"}
	if got, err := Choose("stream,ping", names); err != nil || fmt.Sprint(got) != "[stream ping]" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Choose("ping,none", names); err == nil || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("a row that there is not: %v", err)
	}
}

// Each duration has its unit.
func TestDuration(t *testing.T) {
	var got []string
	for _, ns := range []float64{3.14, 999, 1000, 9990, 12_340, 1e6, 2.5e9} {
		got = append(got, Duration(ns))
	}
	const want = "3.1 ns, 999.0 ns, 1.00 us, 9.99 us, 12.3 us, 1.00 ms, 2.50 s"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
