package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"lwio"
	"lwio/cmd/lwio/internal/bench"
)

// benchFile is the measured file.
type benchFile struct {
	url, path  string // of the share, and the name in it; "" for a file of this host
	completion string // as the URL has it
	identity   identity
	size       int64
	local      string     // the same file on this host, or ""
	server     *ownServer // the server that bench started, or nil
	remove     func() error
}

// localFile is a file of this host.
func (r benchRun) localFile(path string) (*benchFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, usagef("bench %s: it is no regular file", path)
	}
	return &benchFile{local: path, size: info.Size(), remove: func() error { return nil }}, r.checkFile(path)
}

// checkFile refuses to write or verify a named file.
func (r benchRun) checkFile(name any) error {
	switch {
	case bench.Pattern(r.rw).Writes() && !r.overwrite:
		return usagef("bench %s: it is a file, which is written only with --overwrite; name a directory for a scratch file", name)
	case r.verify:
		return usagef("bench %s: only a scratch file can be verified; name a directory", name)
	}
	return nil
}

// ownFile starts a server on a scratch file.
func (r benchRun) ownFile(ctx context.Context, size int64) (*benchFile, error) {
	dir, err := os.MkdirTemp(r.dir, "lwio-bench-")
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
		f.server, err = startOwnServer(ctx, r.stderr, dir, fmt.Sprintf("--no-crc=%t", r.settings.NoCRC))
		return err
	}
	if r.pin {
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
func (r benchRun) remoteFile(ctx context.Context, url string, j *bench.Job) (*benchFile, error) {
	t, err := target(url)
	if err != nil {
		return nil, err
	}
	if r.compare && (t.Provider != "" || t.Completion != "") {
		return nil, usagef("bench %s: --compare takes each provider and completion in turn; choose one of them, or compare", t)
	}
	id, err := r.logon().identity(ctx, t)
	if err != nil {
		return nil, err
	}
	f := &benchFile{url: url, path: t.Path, completion: t.Completion, identity: id, local: r.local, remove: func() error { return nil }}
	err = r.withTarget(ctx, url, func(c *lwio.Client, t *lwio.Target) error {
		info, err := c.Stat(ctx, t.Path)
		switch {
		case err != nil:
			return err
		case info.IsDir() && r.local != "":
			return usagef("bench %s: --local is the same file, and this is a directory", t)
		case info.IsDir():
			if err := j.Check(); err != nil {
				return usageError{err}
			}
			return f.make(ctx, r.app, c, j.FileSize)
		}
		if err := r.checkFile(t); err != nil {
			return err
		}
		f.size = info.Size()
		return f.checkLocal()
	})
	return f, err
}

// checkLocal refuses a local file whose size differs from the file of the URL.
func (f *benchFile) checkLocal() error {
	if f.local == "" {
		return nil
	}
	info, err := os.Stat(f.local)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if info.Size() != f.size {
		return usagef("--local %s: it is not the same file: it has %d bytes, and the file of the URL has %d", f.local, info.Size(), f.size)
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
