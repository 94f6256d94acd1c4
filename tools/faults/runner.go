package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// verdict is the outcome of the tests of one fault.
type verdict string

const (
	killed   verdict = "killed"   // a test failed
	hung     verdict = "hung"     // a test had not ended at the time limit
	survived verdict = "survived" // all tests passed
	wrong    verdict = "error"    // the fault could not be tried
)

// result is the outcome of one fault, and one line of the file of results.
type result struct {
	Fault   string  `json:"fault"`
	Tests   string  `json:"tests"` // arguments of go test
	Verdict verdict `json:"verdict"`
	By      string  `json:"by,omitempty"` // the first test that failed, or the cause of an error
	Seconds float64 `json:"seconds"`
}

// runner tries faults in a work tree of its own.
type runner struct {
	dir       string
	timeout   time.Duration
	checkOnly bool
	passing   map[string]bool // the arguments of go test that passed without a fault
}

// try applies a fault, runs its tests, and takes the fault back.
func (r *runner) try(ctx context.Context, f fault) result {
	res := result{Fault: f.name, Tests: strings.Join(f.args(), " ")}
	if err := r.baseline(ctx, f); err != nil {
		res.Verdict, res.By = wrong, err.Error()
		return res
	}
	begin := time.Now()
	var err error
	res.Verdict, res.By, err = r.tryFault(ctx, f)
	if res.Verdict == hung && f.mayHang {
		res.Verdict, res.By = killed, "time limit of "+res.By
	}
	if err != nil {
		res.Verdict, res.By = wrong, err.Error()
	}
	res.Seconds = time.Since(begin).Round(100 * time.Millisecond).Seconds()
	return res
}

var errNotPassing = errors.New("the tests do not pass without the fault")

// baseline runs the tests of a fault without the fault, once for each list of arguments. A
// failure is tried once more.
func (r *runner) baseline(ctx context.Context, f fault) error {
	args := strings.Join(append([]string{f.module()}, f.args()...), " ")
	if r.checkOnly || r.passing[args] {
		return nil
	}
	begin := time.Now()
	v, by, err := r.test(ctx, f)
	if err == nil && v != survived {
		fmt.Printf("%-8s %6.1fs without a fault: %s: %s\n", v, time.Since(begin).Seconds(), args, by)
		v, by, err = r.test(ctx, f)
	}
	if err == nil && v != survived {
		err = fmt.Errorf("%w: %s", errNotPassing, by)
	}
	if err != nil {
		return err
	}
	r.passing[args] = true
	fmt.Printf("%-8s %6.1fs without a fault: %s\n", "passed", time.Since(begin).Seconds(), args)
	return nil
}

// tryFault applies a fault, runs its tests, and takes the fault back.
func (r *runner) tryFault(ctx context.Context, f fault) (v verdict, by string, err error) {
	name := filepath.Join(r.dir, f.file)
	before, err := os.ReadFile(name)
	if err != nil {
		return "", "", err
	}
	after, err := f.apply(string(before))
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(name, []byte(after), 0o644); err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(name, before, 0o644)) }()
	if r.checkOnly {
		return survived, "", r.compile(ctx, "./"+filepath.Dir(f.file))
	}
	return r.test(ctx, f)
}

// compile checks the types of a package and its tests.
func (r *runner) compile(ctx context.Context, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "vet", pkg)
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	return nil
}

// test runs go test until the first failure. by is the test that failed.
func (r *runner) test(ctx context.Context, f fault) (v verdict, by string, err error) {
	args := f.args()
	// The limit of the tests begins after their build, and go test keeps to it by itself.
	limited, cancel := context.WithTimeout(ctx, 2*r.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, "go",
		append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", r.timeout.String()}, args...)...)
	cmd.Dir = filepath.Join(r.dir, f.module())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which ends the tests too
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case err == nil && !testRan.Match(out):
		return "", "", fmt.Errorf("no test ran: %s", strings.Join(args, " "))
	case err == nil:
		return survived, "", nil
	case limited.Err() != nil:
		return hung, "go test", nil
	}
	return judge(string(out))
}

var (
	testRan  = regexp.MustCompile(`(?m)^ok\s+\S+\s+[0-9.]+s$`)
	notBuilt = regexp.MustCompile(`(?m)^FAIL\s.*\[(?:build|setup) failed\]$`)
	timedOut = regexp.MustCompile(`(?m)^panic: test timed out after .*\n(?:\s*running tests:\n\s*(\S+).*\n)?`)
	failing  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)|^(fatal error: .*)|^(WARNING: DATA RACE)`)
)

// judge returns the verdict of the output of a go test that failed.
func judge(out string) (v verdict, by string, err error) {
	if notBuilt.MatchString(out) {
		return "", "", fmt.Errorf("does not compile:\n%s", out)
	}
	m := failing.FindStringSubmatch(out)
	switch {
	case m == nil:
		first, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		return killed, first, nil
	case strings.HasPrefix(m[2], "panic: test timed out"):
		return hung, timedOut.FindStringSubmatch(out)[1], nil
	}
	return killed, strings.Join(m[1:], ""), nil
}
