package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"lwio"
	"lwio/cmd/lwio/internal/bench"
	"lwio/internal/host"
)

// benchRun is one call of bench.
type benchRun struct {
	*app
	benchOptions
}

// run measures, and leaves no file behind.
func (r benchRun) run(ctx context.Context, url string) (err error) {
	job, size, err := r.job(url != "")
	if err == nil {
		err = r.check(url)
	}
	if err != nil {
		return err
	}
	var plot pendingFile
	if r.plot != "" {
		if plot, err = (localTree{}).Create(ctx, r.plot); err != nil { // before the measurement, which takes long
			return fmt.Errorf("bench: %w", err)
		}
		defer func() { err = errors.Join(err, plot.Abort(err)) }()
	}
	var f *benchFile
	switch {
	case url == "":
		f, err = r.ownFile(ctx, size)
	case isPath(url):
		f, err = r.localFile(url)
	default:
		f, err = r.remoteFile(ctx, url, &job)
	}
	if f != nil {
		defer func() { err = errors.Join(err, f.remove()) }()
	}
	if err != nil {
		return err
	}
	job.FileSize, job.CRC = f.size, r.crcOf(f)
	if err := job.Check(); err != nil {
		return usageError{err}
	}
	all, err := r.measure(ctx, f, &job)
	if err != nil {
		return err
	}
	return errors.Join(r.report(ctx, plot, &job, all), bench.Err(all))
}

// measure does the job on one target, or on all of them.
func (r benchRun) measure(ctx context.Context, f *benchFile, j *bench.Job) ([]bench.Summary, error) {
	pid := r.serverPID
	if f.server != nil {
		pid = f.server.pid()
	}
	cpu := func() (client, server time.Duration) {
		if pid == 0 {
			return host.CPUTime(), -1
		}
		return host.CPUTime(), host.ProcessCPU(pid)
	}
	if !r.compare {
		var t bench.Target = &bench.Local{Path: f.local}
		if f.url != "" {
			t = r.target(f, r.provider, r.completion)
		}
		result, err := bench.Run(ctx, t, j, cpu)
		if e := context.Cause(ctx); e != nil {
			return nil, e
		}
		return []bench.Summary{bench.Summarize(t, result, err)}, nil
	}
	var targets []bench.Target
	if f.local != "" {
		targets = append(targets, &bench.Local{Path: f.local})
	}
	for _, p := range lwio.DefaultProviders() {
		for _, mode := range []string{"polling", "adaptive", "interrupt"} {
			targets = append(targets, r.target(f, p.Name(), mode))
		}
	}
	targets = append(targets, r.target(f, lwio.TransportSMB, ""))
	return bench.Compare(ctx, targets, j, r.rounds, cpu, func(t bench.Target) {
		r.logger(ctx).Debug("bench: measuring", "transport", t.Name(), "completion", t.Completion())
	})
}

// target is a transport to the file.
func (r benchRun) target(f *benchFile, provider, completion string) *bench.Remote {
	url := f.url
	if provider != "" {
		url = withQuery(url, "provider", provider)
	}
	if completion == "" {
		completion = f.completion
	}
	url = withQuery(url, "completion", completion)
	return &bench.Remote{Transport: provider, Mode: completion, Path: f.path, Dial: func(ctx context.Context) (*lwio.Client, error) {
		return lwio.Dial(ctx, url, r.clientConfig(f.identity))
	}}
}

// crcOf describes the CRCs of iWARP.
func (r benchRun) crcOf(f *benchFile) string {
	switch {
	case !r.settings.NoCRC:
		return "on"
	case f.server == nil:
		return "off if the server agrees"
	}
	return "off"
}

// report prints the summaries, and draws them if there is a plot.
func (r benchRun) report(ctx context.Context, plot pendingFile, j *bench.Job, all []bench.Summary) error {
	var err error
	if r.asJSON {
		err = bench.WriteJSON(r.stdout, j, all)
	} else {
		err = bench.WriteTable(r.stdout, j, all)
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
