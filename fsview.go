package lwio

import (
	"context"
	"errors"
	"io/fs"

	"lwio/internal/fsview"
)

// FS returns the share as a read-only fs.FS. It implements fs.ReadDirFS, fs.ReadFileFS,
// fs.StatFS and fs.SubFS; its files implement io.ReaderAt and io.Seeker. ctx bounds every call
// on the file system and on its files. Errors are *fs.PathError.
func (c *Client) FS(ctx context.Context) fs.FS { return fsview.New(ctx, viewShare{c}) }

// viewShare is a Client as an fsview.Share.
type viewShare struct{ *Client }

// Open opens a file or directory.
func (s viewShare) Open(ctx context.Context, name string) (fsview.File, error) {
	f, err := fileOf(s.c.OpenDir(ctx, name))
	if err != nil {
		return nil, err
	}
	return viewFile{f}, nil
}

// Cause returns an error without operation and name.
func (viewShare) Cause(err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Remote:
		return e.Status
	case e.Err != nil:
		return e.Err
	}
	return err
}

// viewFile is a File as an fsview.File.
type viewFile struct{ *File }

// ReadDir lists a directory.
func (f viewFile) ReadDir(ctx context.Context) ([]fs.DirEntry, error) {
	return entriesOf(f.f.ReadDir(ctx))
}
