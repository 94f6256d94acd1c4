// Command figures measures LWIO beside the programs that a user would take instead, and
// beside the floors, the least that a pair of processes can do:
//
//		go run ./figures io|rdma|sock|copy|survive|sqlite [--only ROW,...] [--rounds 5] [--runtime 1s] [--dir DIR] [--size MiB] [--json]
//		go run ./figures compare --old LWIO [--new LWIO] [the same flags]
//
//	  - io: file I/O by 'lwio bench', beside a local file, TCP, and nbdkit with fio;
//	  - rdma: the verbs of package rdma over each provider, beside shared memory and TCP;
//	  - sock: sockets of package rsock, beside those of the system;
//	  - copy: files copied by 'lwio cp', beside smbclient and Samba;
//	  - survive: durable opens and their locks, with and without a state of the server, beside the floor of
//	    writing their records, and the start of a server with a state;
//	  - sqlite: SQLite on a share, and locks, beside a local file;
//	  - compare: two binaries of lwio beside each other, on the same file.
//
// Client and server are separate processes, each on a core of its own unless a row says
// otherwise. Files are in the page cache. All subjects of a row run in turns, each time in
// a new client process; a figure is the median of its runs. A bar is a condition on the
// ratio of two subjects of a row. "others" shows how many cores other processes used
// meanwhile: figures of a busy machine mean little. A subject whose programs are missing is
// named as not measured.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

func main() {
	if job, ok := measure.Side(); ok {
		exitOn(sides.Play(job))
		return
	}
	// The end of a pipe, too, ends the program in order.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	exitOn(run(ctx, os.Stdout, os.Args[1:]))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	measure.Plan
	only     string
	asJSON   bool
	old, new string
}

// areas are the names of the areas, and the preparation of each, which returns its rows.
var areas = map[string]func(l *measure.Lab, o options) ([]measure.Row, error){
	"io":      prepareIO,
	"rdma":    func(*measure.Lab, options) ([]measure.Row, error) { return rdmaRows, nil },
	"sock":    func(*measure.Lab, options) ([]measure.Row, error) { return sockRows, nil },
	"copy":    prepareCopy,
	"survive": prepareSurvive,
	"sqlite":  prepareDatabases,
	"compare": prepareCompare,
}

// parse parses the command line: an area, and flags.
func parse(args []string) (area string, o options, err error) {
	if len(args) == 0 || areas[args[0]] == nil {
		return "", o, errors.New("the first argument is io, rdma, sock, copy, survive, sqlite or compare")
	}
	f := flag.NewFlagSet("figures "+args[0], flag.ContinueOnError)
	f.IntVar(&o.Rounds, "rounds", 5, "runs of each subject; each figure is their median")
	f.DurationVar(&o.Runtime, "runtime", time.Second, "time of each run")
	f.StringVar(&o.Parent, "dir", ".", "directory on a disk file system, for scratch files")
	mib := f.Int64("size", 1024, "size of the file, in MiB")
	f.StringVar(&o.only, "only", "", "rows to measure, separated by commas; default all")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.StringVar(&o.old, "old", "", "the old lwio, for compare")
	f.StringVar(&o.new, "new", "", "the new lwio, for compare; default this checkout's")
	if err := f.Parse(args[1:]); err != nil {
		return "", o, err
	}
	o.Size = *mib << 20
	if o.Rounds < 1 || o.Runtime <= 0 || o.Size <= 0 || f.NArg() > 0 || (o.old != "") != (args[0] == "compare") {
		return "", o, errors.New("--rounds, --runtime and --size must be more than 0, and --old goes with compare")
	}
	return args[0], o, nil
}

// run measures the rows of an area and prints each when it is known.
func run(ctx context.Context, out io.Writer, args []string) (err error) {
	area, o, err := parse(args)
	if err != nil {
		return err
	}
	l, err := measure.NewLab(o.Plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	rows, err := areas[area](l, o)
	if err != nil {
		return err
	}
	if rows, err = choose(rows, o.only); err != nil {
		return err
	}
	if !o.asJSON {
		fmt.Fprintln(out, l)
	}
	var all []measure.Table
	for _, r := range rows {
		t, err := r.Measure(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		all = append(all, t)
		if o.asJSON || area == "compare" {
			continue
		}
		if err := t.Print(out); err != nil {
			return err
		}
	}
	switch {
	case o.asJSON && area == "compare":
		return encodeComparison(out, all)
	case o.asJSON:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	case area == "compare":
		return printComparison(out, all)
	}
	return measure.PrintBars(out, all)
}

// choose returns the rows that a list with commas names, or all rows for an empty list.
// Every name must exist.
func choose(rows []measure.Row, only string) ([]measure.Row, error) {
	if only == "" {
		return rows, nil
	}
	var chosen []measure.Row
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(rows, func(r measure.Row) bool { return r.Name == name })
		if i < 0 {
			var names []string
			for _, r := range rows {
				names = append(names, r.Name)
			}
			return nil, fmt.Errorf("there is no row %q, but %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}

// binary is the path of the checkout's lwio in the lab.
func binary(l *measure.Lab) string { return filepath.Join(l.Dir, "lwio") }
