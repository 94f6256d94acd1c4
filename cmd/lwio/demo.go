package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/internal/host"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	dir, src, provider string
}

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo [--src DIR] [--dir DIR]",
		Short: "Show the main job: copy real files to a server and back, and compare them",
		Long: `Start a server in a process of its own, copy a directory to it and back by each
RDMA provider, compare every byte, and print times and CPU. By default it copies the source
of the Go toolchain. It removes all files that it made.`,
		Args: exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "directory to make the scratch directories in (default: the system's)")
	f.StringVar(&o.src, "src", "", "directory to copy (default: the Go toolchain's source)")
	f.StringVar(&o.provider, "provider", "", "transport to use: shm, iwarp or smb (default: each RDMA provider that works here)")
	return a.clientFlags(cmd)
}

// demoStep is one row of the table.
type demoStep struct {
	name      string
	files     int64
	bytes     int64
	took      time.Duration
	ios       uint64
	transport string
	client    time.Duration // CPU of this process
	server    time.Duration // CPU of the server; negative if it is unknown
}

func (a *app) demo(ctx context.Context, o demoOptions) (err error) {
	src, err := demoSource(ctx, o.src)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(o.dir, "lwio-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if within(scratch, src) {
		return fmt.Errorf("demo: %s is within %s, which is to be copied; name another directory with --dir", filepath.Dir(scratch), src)
	}
	share, back := filepath.Join(scratch, "share"), filepath.Join(scratch, "back")
	if err := errors.Join(os.Mkdir(share, 0o700), os.Mkdir(back, 0o700)); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	srv, err := startOwnServer(ctx, a.stderr, share)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	steps, err := a.demoSteps(ctx, o, srv, src, back)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: copied to a server process and back, every byte compared.\n\n", src)
	return printSteps(a.stdout, steps)
}

// within reports whether dir is other or lies in other; symbolic links are resolved.
func within(dir, other string) bool {
	want, err := os.Stat(other)
	if err != nil {
		return false
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	for ; err == nil; abs = filepath.Dir(abs) {
		if fi, err := os.Stat(abs); err == nil && os.SameFile(fi, want) {
			return true
		}
		if abs == filepath.Dir(abs) {
			break
		}
	}
	return false
}

// demoSteps copies src to the server and back over each transport that works here, or over
// the chosen one.
func (a *app) demoSteps(ctx context.Context, o demoOptions, srv *ownServer, src, back string) ([]demoStep, error) {
	if o.provider != "" {
		return a.demoOver(ctx, o.provider, srv, src, back)
	}
	var all []demoStep
	for _, p := range lwio.DefaultProviders() {
		if _, err := tryProvider(ctx, p); err != nil {
			fmt.Fprintf(a.stderr, "lwio: demo: without %s, which does not work here: %v\n", p.Name(), err)
			continue
		}
		steps, err := a.demoOver(ctx, p.Name(), srv, src, back)
		if err != nil {
			return nil, err
		}
		all = append(all, steps...)
	}
	if len(all) == 0 {
		return a.demoOver(ctx, lwio.TransportSMB, srv, src, back)
	}
	return all, nil
}

// demoOver copies src to the server and back over a transport, and compares.
func (a *app) demoOver(ctx context.Context, transport string, srv *ownServer, src, back string) ([]demoStep, error) {
	c, t, err := a.dial(ctx, withQuery(srv.url, "provider", transport))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	remote, local := remoteTree{c, t}, localTree{}
	there, here := "files-"+transport, filepath.Join(back, transport)
	d := &demoRun{app: a, client: c, server: srv}
	up, err := d.step(ctx, "to the server", local, src, remote, there)
	if err != nil {
		return nil, err
	}
	down, err := d.step(ctx, "and back", remote, there, local, here)
	if err != nil {
		return nil, err
	}
	compared, err := d.compare(ctx, src, here, up)
	return []demoStep{up, down, compared}, err
}

// demoRun measures the steps of a demo.
type demoRun struct {
	app    *app
	client *lwio.Client
	server *ownServer
}

// step copies a directory and measures it.
func (d *demoRun) step(ctx context.Context, name string, src tree, from string, dst tree, to string) (demoStep, error) {
	j := &copyJob{bar: newProgress(d.app.stderr)}
	return d.measure(name, func(s *demoStep) error {
		files, bytes, err := j.directory(ctx, src, from, dst, to)
		j.bar.finish(err == nil)
		s.files, s.bytes = files, bytes
		return err
	})
}

// compare checks that two local directories hold the same files.
func (d *demoRun) compare(ctx context.Context, a, b string, want demoStep) (demoStep, error) {
	s, err := d.measure("compared", func(s *demoStep) error {
		return filepath.WalkDir(a, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			rel, err := filepath.Rel(a, name)
			if err != nil {
				return err
			}
			n, err := compareFiles(ctx, name, filepath.Join(b, rel))
			s.files++
			s.bytes += n
			return err
		})
	})
	s.transport = "local"
	if err == nil && (s.files != want.files || s.bytes != want.bytes) {
		err = fmt.Errorf("demo: compared %d files (%d bytes), but copied %d (%d)", s.files, s.bytes, want.files, want.bytes)
	}
	return s, err
}

// compareFiles compares two local files and returns their size.
func compareFiles(ctx context.Context, a, b string) (int64, error) {
	fa, err := localTree{}.Open(ctx, a)
	if err != nil {
		return 0, err
	}
	defer fa.Close(nil)
	fb, err := localTree{}.Open(ctx, b)
	if err != nil {
		return 0, err
	}
	defer fb.Close(nil)
	if err := compare(ctx, fa, fb, transferOptions{depth: 1}); err != nil {
		return 0, fmt.Errorf("demo: %s: %w", a, err)
	}
	return fa.Size(), nil
}

// measure runs a step and sets its time and CPU.
func (d *demoRun) measure(name string, f func(*demoStep) error) (demoStep, error) {
	s := demoStep{name: name}
	before, client, server := d.client.Stats(), host.CPUTime(), host.ProcessCPU(d.server.pid())
	start := time.Now()
	err := f(&s)
	s.took = time.Since(start)
	after := d.client.Stats()
	s.client = host.CPUTime() - client
	s.server = -1
	if now := host.ProcessCPU(d.server.pid()); now >= 0 {
		s.server = now - server
	}
	rdma, smb := calls(after.RDMA)-calls(before.RDMA), calls(after.SMB)-calls(before.SMB)
	s.ios = rdma + smb
	s.transport = d.client.Transport().Name
	if rdma > 0 && smb > 0 {
		s.transport += fmt.Sprintf(" (%d of %d I/Os over smb)", smb, s.ios)
	}
	return s, err
}

// calls is the number of reads and writes over a transport.
func calls(t lwio.Traffic) uint64 { return t.Reads + t.Writes }

// printSteps prints the table.
func printSteps(out io.Writer, steps []demoStep) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\tfiles\tbytes\tseconds\tMB/s\tI/Os\tclient CPU s\tserver CPU s\ttransport\t")
	for _, s := range steps {
		server := "?"
		if s.server >= 0 {
			server = fmt.Sprintf("%.2f", s.server.Seconds())
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%.1f\t%d\t%.2f\t%s\t%s\t\n", s.name, s.files, s.bytes, s.took.Seconds(),
			float64(s.bytes)/1e6/s.took.Seconds(), s.ios, s.client.Seconds(), server, s.transport)
	}
	return w.Flush()
}

// demoSource finds the directory to copy.
func demoSource(ctx context.Context, dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("demo: there is no Go toolchain to copy files from (%w); name a directory with --src", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src"), nil
}
