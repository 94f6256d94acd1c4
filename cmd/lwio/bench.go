package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/bench"
	"lwio/internal/host"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	rw, bs, size         string
	depth, jobs, rounds  int
	runtime              time.Duration
	completion, provider string
	local, dir, plot     string
	verify, asJSON       bool
	compare, pin         bool
}

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench [flags] [URL]",
		Short: "Measure reads and writes: rate, latency, and CPU of both sides",
		Long: `Measure I/O in the words of fio. The URL names a file to read, or a directory, in
which a scratch file is made and removed; files of yours are never written. Without a
URL a server is started in a process of its own, on a scratch file of --size bytes.

--compare does the same on the local file (without a URL, or with --local), by each
provider that works here in each way to wait, and over SMB alone, in turns, and prints
medians and ratios. A file to read is read once before, so that no turn pays for the
disk; where the file is larger than the memory, some do.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("bench takes one URL, or nothing")
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
			return a.bench(cmd.Context(), o, url)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.rw, "rw", string(bench.RandRead), "randread, randwrite, read or write")
	f.StringVar(&o.bs, "bs", "4k", "size of a block")
	f.StringVar(&o.size, "size", "", "size of the scratch file (default 256m; with --pin 1g)")
	f.IntVar(&o.depth, "iodepth", 32, "operations in flight on each connection")
	f.IntVar(&o.jobs, "numjobs", 1, "connections")
	f.DurationVar(&o.runtime, "runtime", 5*time.Second, "how long; with --compare, of each turn")
	f.StringVar(&o.completion, "completion", "", "how to wait: adaptive, polling or interrupt")
	f.StringVar(&o.provider, "provider", "", "transport: shm, iwarp or smb (default: the best)")
	f.BoolVar(&o.verify, "verify", false, "check every byte (of a scratch file)")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.compare, "compare", false, "compare the transports, in turns")
	f.IntVar(&o.rounds, "rounds", 5, "turns of --compare")
	f.StringVar(&o.local, "local", "", "the same file on this host, for --compare")
	f.StringVar(&o.dir, "dir", "", "directory for the scratch file of a server of its own (default: the system's)")
	f.StringVar(&o.plot, "plot", "", "draw latencies and rates into an SVG file")
	f.BoolVar(&o.pin, "pin", false, "give client and server one CPU each (Linux; server of its own)")
	return a.clientFlags(cmd)
}

// transports are the names of the ways to a server.
func transports() (names []string) {
	for _, p := range lwio.Defaults() {
		names = append(names, p.Name())
	}
	return append(names, lwio.TransportSMB)
}

// job turns the flags into a job, but for the size of the file.
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
		Pattern: bench.Pattern(o.rw), BlockSize: int(bs), FileSize: size, Depth: o.depth, Jobs: o.jobs,
		Runtime: o.runtime, Verify: o.verify,
	}
	check := j
	if remote { // where there may be no scratch file
		check.FileSize = max(size, bs)
	}
	if err := check.Check(); err != nil {
		return j, 0, usageError{err}
	}
	return j, size, nil
}

// bench measures, and leaves nothing behind.
func (a *app) bench(ctx context.Context, o benchOptions, url string) (err error) {
	job, size, err := o.job(url != "")
	if err != nil {
		return err
	}
	switch {
	case url != "" && (o.pin || o.dir != ""):
		return usagef("--pin and --dir are about a server of bench's own")
	case o.local != "" && (url == "" || !o.compare):
		return usagef("--local is for --compare with the file of a URL")
	case !slices.Contains([]string{"", "adaptive", "polling", "interrupt"}, o.completion):
		return usagef("--completion %s: it is adaptive, polling or interrupt", o.completion)
	case o.provider != "" && !slices.Contains(transports(), o.provider):
		return usagef("--provider %s: there are %s", o.provider, strings.Join(transports(), ", "))
	case o.compare && (o.provider != "" || o.completion != ""):
		return usagef("--compare takes each --provider and --completion in turn; choose one of them, or compare")
	}
	var plot pendingFile
	if o.plot != "" {
		if plot, err = (localTree{}).Create(ctx, o.plot); err != nil { // rather than after all that time
			return fmt.Errorf("bench: %w", err)
		}
		defer func() { err = errors.Join(err, plot.Abort(err)) }()
	}
	var f *benchFile
	if url == "" {
		f, err = a.ownFile(ctx, o, size)
	} else {
		f, err = a.remoteFile(ctx, o, url, &job)
	}
	if f != nil {
		defer func() { err = errors.Join(err, f.remove()) }()
	}
	if err != nil {
		return err
	}
	job.FileSize, job.CRC = f.size, a.crcOf(f)
	if err := job.Check(); err != nil {
		return usageError{err}
	}
	all, err := a.measure(ctx, o, f, &job)
	if err != nil {
		return err
	}
	return errors.Join(a.report(ctx, o.asJSON, plot, &job, all), bench.Err(all))
}

// measure does the job, on one target or on all.
func (a *app) measure(ctx context.Context, o benchOptions, f *benchFile, j *bench.Job) ([]bench.Summary, error) {
	cpu := func() (client, server time.Duration) {
		if f.server == nil {
			return host.CPUTime(), -1
		}
		return host.CPUTime(), processCPU(f.server.pid())
	}
	if !o.compare {
		t := a.target(f, o.provider, o.completion)
		r, err := bench.Run(ctx, t, j, cpu)
		if e := context.Cause(ctx); e != nil {
			return nil, e
		}
		return []bench.Summary{bench.Summarize(t, r, err)}, nil
	}
	var targets []bench.Target
	if f.local != "" {
		targets = append(targets, &bench.Local{Path: f.local})
	}
	for _, p := range lwio.Defaults() {
		for _, mode := range []string{"polling", "adaptive", "interrupt"} {
			targets = append(targets, a.target(f, p.Name(), mode))
		}
	}
	targets = append(targets, a.target(f, lwio.TransportSMB, ""))
	return bench.Compare(ctx, targets, j, o.rounds, cpu, func(t bench.Target) {
		a.logger(ctx).Debug("bench: measuring", "transport", t.Name(), "completion", t.Completion())
	})
}

// target is a way to the file.
func (a *app) target(f *benchFile, provider, completion string) *bench.Remote {
	url := f.url
	if provider != "" {
		url = withQuery(url, "provider", provider)
	}
	if completion == "" {
		completion = f.completion
	}
	url = withQuery(url, "completion", completion)
	return &bench.Remote{Transport: provider, Mode: completion, Path: f.path, Dial: func(ctx context.Context) (*lwio.Client, error) {
		return lwio.Dial(ctx, url, &lwio.Config{
			Password: f.password, Providers: a.providers(), RequireRDMA: a.requireRDMA, AllowMD5: a.allowMD5, Timeout: a.timeout,
		})
	}}
}

// crcOf is what is known of iWARP's CRCs.
func (a *app) crcOf(f *benchFile) string {
	switch {
	case !a.noCRC:
		return "on"
	case f.server == nil:
		return "off if the server agrees"
	}
	return "off"
}

// report prints what came of it, and draws it if there is a plot.
func (a *app) report(ctx context.Context, asJSON bool, plot pendingFile, j *bench.Job, all []bench.Summary) error {
	var err error
	if asJSON {
		err = bench.WriteJSON(a.stdout, j, all)
	} else {
		err = bench.WriteTable(a.stdout, j, all)
	}
	if err != nil || plot == nil {
		return err
	}
	var b bytes.Buffer
	if err := bench.WritePlot(&b, j, all); err != nil {
		return err
	}
	if err = plot.WriteChunk(ctx, b.Bytes(), 0); err == nil {
		err = plot.Commit(ctx)
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// benchFile is the file that is measured.
type benchFile struct {
	url, path  string // of the share, and the name in it
	completion string // as the URL has it
	password   string
	size       int64
	local      string     // the same file on this host, or ""
	server     *ownServer // of its own, or nil
	remove     func() error
}

// ownFile starts a server on a scratch file.
func (a *app) ownFile(ctx context.Context, o benchOptions, size int64) (*benchFile, error) {
	dir, err := os.MkdirTemp(o.dir, "lwio-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	f := &benchFile{path: "file", size: size, local: filepath.Join(dir, "file")}
	f.remove = func() error {
		if f.server == nil {
			return os.RemoveAll(dir)
		}
		return errors.Join(f.server.stop(), os.RemoveAll(dir))
	}
	if err := bench.MakeFile(f.local, size); err != nil {
		return f, fmt.Errorf("bench: %w", err)
	}
	start := func() (err error) {
		f.server, err = startOwnServer(ctx, a.stderr, dir, fmt.Sprintf("--no-crc=%t", a.noCRC))
		return err
	}
	if o.pin {
		err = pinned(start)
	} else {
		err = start()
	}
	if err != nil {
		return f, err
	}
	f.url = f.server.url
	return f, nil
}

// remoteFile finds the file of a URL, or makes one in its directory.
func (a *app) remoteFile(ctx context.Context, o benchOptions, url string, j *bench.Job) (*benchFile, error) {
	t, err := target(url)
	if err != nil {
		return nil, err
	}
	if o.compare && (t.Provider != "" || t.Completion != "") {
		return nil, usagef("bench %s: --compare takes each provider and completion in turn; choose one of them, or compare", t)
	}
	password, err := a.password(ctx, t)
	if err != nil {
		return nil, err
	}
	f := &benchFile{url: url, path: t.Path, completion: t.Completion, password: password, local: o.local, remove: func() error { return nil }}
	err = a.withTarget(ctx, url, func(c *lwio.Client, t *lwio.Target) error {
		info, err := c.Stat(ctx, t.Path)
		switch {
		case err != nil:
			return err
		case info.IsDir() && o.local != "":
			return usagef("bench %s: --local is the same file, and this is a directory", t)
		case info.IsDir():
			if err := j.Check(); err != nil {
				return usageError{err}
			}
			return f.make(ctx, a, c, j.FileSize)
		case j.Pattern.Writes():
			return usagef("bench %s: it is a file, and files of yours are never written; name a directory", t)
		case j.Verify:
			return usagef("bench %s: only a scratch file can be verified; name a directory", t)
		}
		f.size = info.Size()
		return f.checkLocal()
	})
	return f, err
}

// checkLocal refuses a local file that cannot be the one of the URL.
func (f *benchFile) checkLocal() error {
	if f.local == "" {
		return nil
	}
	info, err := os.Stat(f.local)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if info.Size() != f.size {
		return usagef("--local %s: it is not the same file: it has %d bytes, and that of the URL %d", f.local, info.Size(), f.size)
	}
	return nil
}

// make makes a scratch file in the directory f.path.
func (f *benchFile) make(ctx context.Context, a *app, c *lwio.Client, size int64) (err error) {
	dir, url := f.path, f.url
	f.path, f.size, f.local = path.Join(dir, fmt.Sprintf(".lwio-bench-%d-%d", os.Getpid(), time.Now().UnixNano())), size, ""
	out, err := c.OpenFile(ctx, f.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0)
	if err != nil {
		return err
	}
	f.remove = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
		return a.withTarget(ctx, url, func(c *lwio.Client, _ *lwio.Target) error { return c.Remove(ctx, f.path) })
	}
	err = bench.FillFile(size, func(p []byte, off int64) error {
		_, err := out.WriteAtContext(ctx, p, off)
		return err
	})
	return errors.Join(err, out.Close())
}
