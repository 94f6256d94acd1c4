// Command faults puts deliberate faults into the code, one at a time, and reports which of
// them no test notices.
//
//	go run -C tools ./faults [-run REGEXP] [-list FILE] [-timeout 5m] [-check]
//
// It works on a copy of HEAD and leaves the checkout as it is. For each fault it changes
// one place, runs the tests of the packages that the fault names, and changes the place
// back. A fault is killed if a test fails, and survives if all pass. A fault whose place is
// not found, or whose code does not compile, is an error of the list; -check looks for such
// errors and runs no test. The exit status is 0 if all faults are killed, 1 if some survive,
// 2 for an error.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	list := flag.String("list", "faults/faults.txt", "the list of faults")
	run := flag.String("run", "", "a regular expression for the names of the faults to try")
	checkOnly := flag.Bool("check", false, "apply and compile the faults, and run no test")
	timeout := flag.Duration("timeout", 5*time.Minute, "the time for the tests of one fault; a fault that exceeds it is killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survived, err := faults(ctx, *list, *run, *timeout, *checkOnly)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
	if survived > 0 {
		os.Exit(1)
	}
}

// faults tries the selected faults of the list and returns how many survived.
func faults(ctx context.Context, list, run string, timeout time.Duration, checkOnly bool) (survived int, err error) {
	selected, err := regexp.Compile(run)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return 0, err
	}
	all, err := parse(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", list, err)
	}
	dir, remove, err := copyOfHead(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := runner{dir: dir, timeout: timeout, checkOnly: checkOnly, passing: map[string]bool{}}
	killed, wrong := 0, 0
	for _, f := range all {
		if !selected.MatchString(f.name) {
			continue
		}
		verdict, err := r.try(ctx, f)
		switch {
		case ctx.Err() != nil:
			return survived, ctx.Err()
		case err != nil:
			wrong++
			fmt.Printf("error    %s: %v\n", f.name, err)
		case checkOnly:
		case verdict == "":
			survived++
			fmt.Printf("SURVIVED %s\n", f.name)
		default:
			killed++
			fmt.Printf("killed   %s: %s\n", f.name, verdict)
		}
	}
	fmt.Printf("%d killed, %d survived, %d errors\n", killed, survived, wrong)
	if wrong > 0 {
		return survived, fmt.Errorf("%d faults could not be tried", wrong)
	}
	return survived, nil
}

// copyOfHead makes a work tree of HEAD in a temporary folder. remove deletes it.
func copyOfHead(ctx context.Context) (dir string, remove func() error, err error) {
	parent, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(parent, "tree")
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", dir, "HEAD").CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("git worktree add: %w: %s", err, out), os.RemoveAll(parent))
	}
	return dir, func() error {
		out, err := exec.Command("git", "worktree", "remove", "--force", dir).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("git worktree remove: %w: %s", err, out)
		}
		return errors.Join(err, os.RemoveAll(parent))
	}, nil
}

// runner tries faults in a work tree of its own.
type runner struct {
	dir       string
	timeout   time.Duration
	checkOnly bool
	passing   map[string]bool // the sets of packages whose tests passed without a fault
}

// try applies a fault, runs its tests, and takes the fault back. It returns how the fault
// was killed, or "" if it survived.
func (r *runner) try(ctx context.Context, f fault) (verdict string, err error) {
	set := strings.Join(f.packages, " ")
	if !r.passing[set] && !r.checkOnly {
		if verdict, err := r.test(ctx, f.packages); err != nil || verdict != "" {
			return "", fmt.Errorf("without the fault: %s: %w", verdict, errors.Join(err, errNotPassing))
		}
		r.passing[set] = true
	}
	name := filepath.Join(r.dir, f.file)
	before, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	after, err := f.apply(string(before))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(name, []byte(after), 0o644); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(name, before, 0o644)) }()
	return r.test(ctx, f.packages)
}

var errNotPassing = errors.New("the tests do not pass")

var failing = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^panic: (.*)|^(WARNING: DATA RACE)`)

// test runs the tests of packages and returns the name of the first failure, or "".
func (r *runner) test(ctx context.Context, packages []string) (string, error) {
	build := exec.CommandContext(ctx, "go", append([]string{"vet"}, packages...)...)
	build.Dir = r.dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	if r.checkOnly {
		return "", nil
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", append([]string{"test", "-count=1", "-failfast", "-timeout", r.timeout.String()}, packages...)...)
	cmd.Dir = r.dir
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if limited.Err() != nil && ctx.Err() == nil {
		return "the time limit", nil
	}
	if m := failing.FindSubmatch(out); m != nil {
		return string(bytes.TrimSpace(bytes.Join(m[1:], nil))), nil
	}
	return err.Error(), nil
}
