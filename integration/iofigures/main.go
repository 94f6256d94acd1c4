// Command iofigures measures file I/O over LWIO beside what a user would take
// instead, and beside the least that a pair of processes can do: a local read, TCP
// alone, nbdkit with fio. It uses the library as any program would.
//
//	go run ./iofigures [-only ROW,...] [-rounds 5] [-runtime 1s] [-dir DIR] [-size MiB] [-json]
//
// Client and server are processes of their own, each on a core of its own where the
// row does not say otherwise, in memory of the file that is in the page cache. All
// subjects of a row run in turns, each time in a fresh client; a figure is the median
// of its runs. How busy others kept the machine is said, as figures of a machine that is
// not quiet are worth little. What counts is the ratio
// within a row, held against a bar. What cannot be measured, for want of nbdkit say, is said.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"lwio/integration/internal/measure"
)

func main() {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case clientArgument:
			exitOn(playClient(os.Args[2]))
			return
		case peerArgument:
			exitOn(playPeer(os.Args[2]))
			return
		}
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	var o options
	only := flag.String("only", strings.Join(names, ","), "rows to measure")
	flag.IntVar(&o.rounds, "rounds", 5, "runs of each subject; each figure is their median")
	flag.DurationVar(&o.runtime, "runtime", time.Second, "how long each run is")
	flag.StringVar(&o.dir, "dir", ".", "directory on a disk file system, for the file")
	mib := flag.Int64("size", 1024, "size of the file, in MiB")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	o.size = *mib << 20
	wanted, err := measure.Choose(*only, names)
	exitOn(err)
	// A closed pipe, too, is no reason to leave anything behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	exitOn(run(ctx, o, wanted, *asJSON))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "iofigures:", err)
		os.Exit(1)
	}
}

// run measures the rows and prints each when it is known.
func run(ctx context.Context, o options, wanted []string, asJSON bool) (err error) {
	l, err := newLab(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	var all []table
	if !asJSON {
		fmt.Println(l)
	}
	for _, r := range rows {
		if !slices.Contains(wanted, r.name) {
			continue
		}
		t, err := r.measure(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		all = append(all, t)
		if !asJSON {
			if err := t.print(os.Stdout); err != nil {
				return err
			}
		}
	}
	if !asJSON {
		return printBars(os.Stdout, all)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(all)
}
