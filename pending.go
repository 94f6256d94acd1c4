package lwio

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path"
	"sync/atomic"
)

// PendingFile is a file that does not have its name yet: it appears under it, whole,
// by Commit. Until then it has a temporary name in the same directory, and the
// server removes it when it is closed or when the client is gone. It is written
// and read like any File.
type PendingFile struct {
	*File
	final     string
	committed atomic.Bool
}

// CreatePending begins the file name. What has that name stays as it is until
// Commit.
//
// Errors: as Create's, fs.ErrNotExist if the directory is missing.
func (c *Client) CreatePending(ctx context.Context, name string) (*PendingFile, error) {
	final, err := cleanName(name)
	if err == nil && final == "" {
		err = errRoot
	}
	if err != nil {
		return nil, wrap("create", name, err)
	}
	temp := path.Join(path.Dir(final), "."+path.Base(final)+"."+rand.Text()[:8]+".part")
	f, err := c.OpenFile(ctx, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return nil, err
	}
	if err := f.SetDeleteOnClose(ctx, true); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &PendingFile{File: f, final: final}, nil
}

// Commit gives the file its name, after all earlier writes, in place of a file that
// has it, and closes it. If it fails the name is as it was.
func (p *PendingFile) Commit(ctx context.Context) error {
	if err := p.SetDeleteOnClose(ctx, false); err != nil {
		return err
	}
	if err := p.Rename(ctx, p.final); err != nil {
		return errors.Join(err, p.SetDeleteOnClose(ctx, true))
	}
	p.committed.Store(true)
	return p.File.Close()
}

// Close removes the file, unless Commit has given it its name; then it does
// nothing.
func (p *PendingFile) Close() error {
	if p.committed.Load() {
		return nil
	}
	return p.File.Close()
}
