// Command faults puts deliberate faults into the code, one at a time, and reports which of
// them no test notices.
//
//	go run -C tools ./faults [-run REGEXP] [-list FILE] [-timeout 5m] [-results FILE] [-check]
//
// It works on a copy of HEAD and leaves the checkout as it is. For each fault it changes
// one place, runs the tests of the packages that the fault names until the first failure,
// and changes the place back. A fault is killed if a test fails. It is hung if the tests do
// not end within the time limit: such a test needs a bound of its own. A fault with the word
// "time-limit" in the list may hang, and is killed by the limit then. It survives if all tests
// pass.
//
// -results appends each outcome to a file, as a line of JSON. Faults that have an outcome
// there are not tried again, so that a run that was ended continues.
//
// A fault whose place is not found, or whose code does not compile, is an error of the
// list; -check looks for such errors and runs no test. The exit status is 0 if all
// faults are killed, 1 if some survive or hang, 2 for an error.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.list, "list", "faults/faults.txt", "the list of faults")
	flag.StringVar(&o.run, "run", "", "a regular expression for the names of the faults to try")
	flag.BoolVar(&o.checkOnly, "check", false, "apply and compile the faults, and run no test")
	flag.DurationVar(&o.timeout, "timeout", 5*time.Minute, "the time for the tests of one fault")
	flag.StringVar(&o.results, "results", "", "a file to which outcomes are appended; its faults are not tried again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	count, err := faults(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
	os.Exit(status(count))
}

// status returns the exit status for the numbers of verdicts: 1 if a fault survives or hangs.
func status(count map[verdict]int) int {
	if count[survived]+count[hung] > 0 {
		return 1
	}
	return 0
}

// options are the flags of the command.
type options struct {
	list, run, results string
	timeout            time.Duration
	checkOnly          bool
}

// faults tries the selected faults of the list and returns how many had each verdict.
func faults(ctx context.Context, o options) (count map[verdict]int, err error) {
	selected, err := regexp.Compile(o.run)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(o.list)
	if err != nil {
		return nil, err
	}
	all, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.list, err)
	}
	known, err := readResults(o.results)
	if err != nil {
		return nil, err
	}
	dir, remove, err := copyOfHead(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := runner{dir: dir, timeout: o.timeout, checkOnly: o.checkOnly, passing: map[string]bool{}}
	count = map[verdict]int{}
	for _, f := range all {
		if !selected.MatchString(f.name) || known[f.name] {
			continue
		}
		res := r.try(ctx, f)
		if ctx.Err() != nil {
			return count, ctx.Err()
		}
		count[res.Verdict]++
		if o.checkOnly && res.Verdict == survived {
			continue
		}
		fmt.Printf("%-8s %6.1fs %s: %s\n", res.Verdict, res.Seconds, res.Fault, res.By)
		if err := appendResult(o.results, res); err != nil {
			return count, err
		}
	}
	if o.checkOnly {
		fmt.Printf("%d faults apply and compile, %d errors\n", count[survived], count[wrong])
		count[survived] = 0
	} else {
		fmt.Printf("%d killed, %d hung, %d survived, %d errors\n", count[killed], count[hung], count[survived], count[wrong])
	}
	if n := count[wrong]; n > 0 {
		return count, fmt.Errorf("%d faults could not be tried", n)
	}
	return count, nil
}

// readResults returns the faults that have an outcome in a file of results, which need not
// exist.
func readResults(name string) (known map[string]bool, err error) {
	text, err := os.ReadFile(name)
	if name == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known = map[string]bool{}
	for dec := json.NewDecoder(bytes.NewReader(text)); dec.More(); {
		var res result
		if err := dec.Decode(&res); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		known[res.Fault] = res.Verdict != wrong
	}
	return known, nil
}

// appendResult adds a line to a file of results, if it has a name.
func appendResult(name string, res result) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(res), f.Close())
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
