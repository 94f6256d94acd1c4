package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/bench"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	rw, bs, size         string
	engine               string
	mix, batchComplete   int
	depth, jobs, rounds  int
	ramp, runtime        time.Duration
	untimed, overwrite   bool
	serverPID            int
	completion, provider string
	local, dir, plot     string
	verify, asJSON       bool
	compare, pin         bool
}

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench [flags] [URL|PATH]",
		Short: "Measure reads and writes: rate, latency, and CPU of both sides",
		Long: `Measure I/O; flags and patterns have the names of fio. The URL names a file to read, or a
directory: bench makes a scratch file there and removes it. A file is written only with
--overwrite. A PATH names a file of this host. Without either, bench starts a server
process with a scratch file of --size bytes.

--compare measures, in turns, the local file (without a URL, or with --local), each
provider that works here in each completion mode, and SMB alone. It prints medians and
ratios. A file to read is read once before, so no turn waits for the disk, unless the file
is larger than the memory.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("bench takes one URL or path, or nothing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			url := ""
			if len(args) == 1 {
				url = args[0]
			}
			if !o.compare && cmd.Flags().Changed("rounds") {
				return usagef("--rounds is for --compare")
			}
			return benchRun{a, o}.run(cmd.Context(), url)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.rw, "rw", string(bench.RandRead), "randread, randwrite, randrw, read, write or rw")
	f.IntVar(&o.mix, "rwmixread", 50, "percentage of reads of randrw and rw")
	f.StringVar(&o.bs, "bs", "4k", "size of a block")
	f.StringVar(&o.size, "size", "", "size of the scratch file (default 256m; with --pin 1g)")
	f.IntVar(&o.depth, "iodepth", 32, "operations in flight on each connection")
	f.StringVar(&o.engine, "ioengine", "", "batch (a Batch of one goroutine), sync (blocking calls, a goroutine each) or vec (one vectored call for --iodepth blocks); default batch over RDMA with --iodepth above 1, else sync")
	f.IntVar(&o.batchComplete, "iodepth-batch-complete", 1, "completions to wait for at a time, with batch")
	f.IntVar(&o.jobs, "numjobs", 1, "connections")
	f.DurationVar(&o.ramp, "ramp-time", 0, "run the load for this time before measuring it")
	f.DurationVar(&o.runtime, "runtime", 5*time.Second, "time to measure; with --compare, of each turn")
	f.StringVar(&o.completion, "completion", "", "completion mode: adaptive, polling or interrupt")
	f.StringVar(&o.provider, "provider", "", "transport: shm, iwarp or smb (default: the best)")
	f.BoolVar(&o.verify, "verify", false, "check every byte (of a scratch file)")
	f.BoolVar(&o.untimed, "gtod-reduce", false, "omit latencies, whose clock readings cost CPU")
	f.BoolVar(&o.overwrite, "overwrite", false, "write the named file, whose content is lost")
	f.IntVar(&o.serverPID, "server-pid", 0, "process of the server on this host, to measure its CPU")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.compare, "compare", false, "compare the transports, in turns")
	f.IntVar(&o.rounds, "rounds", 5, "turns of --compare")
	f.StringVar(&o.local, "local", "", "the same file on this host, for --compare")
	f.StringVar(&o.dir, "dir", "", "directory for the scratch file of the server that bench starts (default: the system's)")
	f.StringVar(&o.plot, "plot", "", "draw latencies and rates into an SVG file")
	f.BoolVar(&o.pin, "pin", false, "give client and server one CPU each (Linux; for the server that bench starts)")
	return a.clientFlags(cmd)
}

// transports are the names of the transports to a server.
func transports() (names []string) {
	for _, p := range lwio.DefaultProviders() {
		names = append(names, p.Name())
	}
	return append(names, lwio.TransportSMB)
}

// job is the job of the flags; the caller sets the size of the file.
func (o *benchOptions) job(remote bool) (bench.Job, int64, error) {
	bs, err := bench.ParseSize(o.bs)
	if err != nil {
		return bench.Job{}, 0, usagef("--bs: %w", err)
	}
	switch {
	case o.size == "" && o.pin:
		o.size = "1g"
	case o.size == "":
		o.size = "256m"
	}
	size, err := bench.ParseSize(o.size)
	if err != nil {
		return bench.Job{}, 0, usagef("--size: %w", err)
	}
	if o.rounds < 1 {
		return bench.Job{}, 0, usagef("--rounds: it must be more than 0")
	}
	j := bench.Job{
		Pattern: bench.Pattern(o.rw), ReadPercent: o.mix, BlockSize: int(bs), FileSize: size, Depth: o.depth, Jobs: o.jobs,
		Engine: bench.Engine(o.engine), BatchComplete: o.batchComplete, Ramp: o.ramp, Runtime: o.runtime,
		Verify: o.verify, Untimed: o.untimed,
	}
	check := j
	if remote { // a scratch file may not be needed
		check.FileSize = max(size, bs*int64(max(o.depth, 1)))
	}
	if err := check.Check(); err != nil {
		return j, 0, usageError{err}
	}
	return j, size, nil
}

// isPath reports whether an argument names a file of this host.
func isPath(arg string) bool { return arg != "" && !strings.Contains(arg, "://") }

// check returns the first mistake in the combination of flags.
func (o *benchOptions) check(url string) error {
	switch path := isPath(url); {
	case url != "" && (o.pin || o.dir != ""):
		return usagef("--pin and --dir are for the server that bench starts")
	case url == "" && (o.overwrite || o.serverPID != 0):
		return usagef("--overwrite and --server-pid are for a named file")
	case o.overwrite && o.verify:
		return usagef("--verify is for a scratch file; it does not go with --overwrite")
	case path && (o.compare || o.provider != "" || o.completion != "" || o.engine != ""):
		return usagef("bench %s: a local file has no transport to choose or compare", url)
	case o.local != "" && (url == "" || !o.compare):
		return usagef("--local is for --compare with the file of a URL")
	case !slices.Contains([]string{"", "adaptive", "polling", "interrupt"}, o.completion):
		return usagef("--completion %s: it is adaptive, polling or interrupt", o.completion)
	case o.provider != "" && !slices.Contains(transports(), o.provider):
		return usagef("--provider %s: there are %s", o.provider, strings.Join(transports(), ", "))
	case o.compare && (o.provider != "" || o.completion != ""):
		return usagef("--compare takes each --provider and --completion in turn; choose one of them, or compare")
	}
	return nil
}
