package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
)

// database is a load of SQLite, or of the locks that it takes, on a local file or on a file of the share.
type database struct {
	Load    string // a benchmark of sides
	Via     string // viaLocal, or the transport
	Journal string // its mode
	Writers int    // each a client of its own; 0 is 1
	Count   int    // operations in a second, about
	Size    int    // of speedtest1
}

// Run does the job once, on a new file.
func (j database) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	const name = "database"
	job := sides.Job{Bench: j.Load, File: name, Journal: j.Journal, Flight: max(j.Writers, 1), Count: j.Count, Size: j.Size}
	at := filepath.Join(l.Share, name)
	if j.Via == viaLocal {
		at = filepath.Join(l.Dir, name)
		job.File = at
	} else {
		s, err := server(l, binary(l), l.Server, false)
		if err != nil {
			return nil, err
		}
		job.Via, job.Peer, job.ServerPID = j.Via, s.At, s.PID()
	}
	job.To = job.File + "-speedtest"
	for _, old := range []string{at, at + "-journal", at + "-speedtest", at + "-speedtest-journal"} {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if j.Journal == "" { // no database
		if err := os.WriteFile(at, []byte("content"), 0o644); err != nil {
			return nil, err
		}
	}
	s, err := job.OfServer(ctx, l)
	if j.Via == viaLocal {
		delete(s, measure.ServerCPU)
	}
	return s, err
}
