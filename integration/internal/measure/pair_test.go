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

// sideJob is the job of a side in the tests.
type sideJob struct {
	Name, Peer string
	Fail       bool
}

// The test binary runs the two processes.
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

// playSide prints its address, if it has no peer, and then its job and environment.
func playSide(text string) error {
	var j sideJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if j.Fail {
		return errors.New(j.Name + " fails")
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

// Each side has its job, its core and the inherited files; the active one has the address of
// the passive one.
func TestPairRunsBothSides(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("content"); err != nil {
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
		&active:  fmt.Sprintf("[active at home 3 [%d] content]", p.Cores[0]),
		&passive: fmt.Sprintf("[passive  3 [%d] content]", p.Cores[1]),
	} {
		if fmt.Sprint(*got) != want {
			t.Errorf("%v, want %s", *got, want)
		}
	}
}

// A side that runs alone has its job and the first core.
func TestAloneRunsOneSide(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := Pair{Cores: [2]int{cores[len(cores)-1], cores[0]}, Procs: 2, Files: []*os.File{file}}
	var got []string
	if err := p.Alone(t.Context(), sideJob{Name: "alone", Peer: "far"}, &got); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("[alone far 2 [%d] ]", p.Cores[0]); fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	err = p.Alone(t.Context(), sideJob{Name: "alone", Fail: true}, &got)
	if err == nil || !strings.Contains(err.Error(), "alone fails") {
		t.Errorf("the error of the side is %v", err)
	}
}

// The error of a run has the message of the side that failed.
func TestPairReportsFailedSide(t *testing.T) {
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
		if err == nil || !strings.Contains(err.Error(), c.name+" fails") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
