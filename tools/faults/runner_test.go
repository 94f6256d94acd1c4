package main

import (
	"path/filepath"
	"testing"
)

func TestJudgeNamesTheFirstFailure(t *testing.T) {
	for out, want := range map[string]struct {
		verdict verdict
		by      string
	}{
		"--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/sub (0.01s)\nFAIL\nFAIL\tlwio/vfs\t1s\n":           {killed, "TestA"},
		"    --- FAIL: TestA/sub (0.01s)\nFAIL\n":                                                        {killed, "TestA/sub"},
		"panic: runtime error: index out of range\n\ngoroutine 1\nFAIL\tlwio/vfs\t1s\n":                  {killed, "panic: runtime error: index out of range"},
		"leaked goroutines: 2\nFAIL\tlwio/vfs\t1s\n":                                                     {killed, "leaked goroutines: 2"},
		"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestB (59s)\n\ngoroutine 9\nFAIL\tx\n":  {hung, "TestB"},
		"--- FAIL: TestA (0.01s)\npanic: test timed out after 1m0s\n\trunning tests:\n\t\tTestB (59s)\n": {killed, "TestA"},
	} {
		if v, by, err := judge(out); v != want.verdict || by != want.by || err != nil {
			t.Errorf("judge(%q) = %s, %q, %v; want %s, %q", out, v, by, err, want.verdict, want.by)
		}
	}
	if v, _, err := judge("./a.go:1: undefined: x\nFAIL\tlwio/vfs [build failed]\n"); err == nil {
		t.Errorf("a build that failed is %s", v)
	}
}

func TestStatusIsOneIfAFaultSurvivesOrHangs(t *testing.T) {
	for v, want := range map[verdict]int{killed: 0, hung: 1, survived: 1} {
		if got := status(map[verdict]int{killed: 3, v: 4}); got != want {
			t.Errorf("status with verdict %s = %d, want %d", v, got, want)
		}
	}
}

func TestResultsInTheFileAreNotTriedAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results")
	if known, err := readResults(name); err != nil || len(known) != 0 {
		t.Fatalf("readResults without a file: %v, %v", known, err)
	}
	for _, res := range []result{{Fault: "a", Verdict: killed}, {Fault: "b", Verdict: survived}, {Fault: "c", Verdict: wrong}} {
		if err := appendResult(name, res); err != nil {
			t.Fatal(err)
		}
	}
	known, err := readResults(name)
	if err != nil || !known["a"] || !known["b"] || known["c"] {
		t.Errorf("readResults = %v, %v; want a and b", known, err)
	}
}
