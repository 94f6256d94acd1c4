package lwio

import (
	"context"
	"errors"
	"io/fs"

	"lwio/internal/fsview"
)

// FS is a view of the client's share as an fs.FS, for programs that read files
// that way. It is an fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and fs.SubFS. ctx
// bounds every call on the view and on its files. The files are io.ReaderAt and
// io.Seeker.
func (c *Client) FS(ctx context.Context) fs.FS { return fsview.New(ctx, viewShare{c}) }

// viewShare is the client's share as a view has it.
type viewShare struct{ *Client }

// Open opens a file or directory.
func (s viewShare) Open(ctx context.Context, name string) (fsview.File, error) {
	f, err := fileOf(s.c.OpenDir(ctx, name))
	if err != nil {
		return nil, err
	}
	return viewFile{f}, nil
}

// Cause is the cause of an error, without operation and name.
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

// viewFile is a file or directory as a view has it.
type viewFile struct{ *File }

// ReadDir lists a directory.
func (f viewFile) ReadDir(ctx context.Context) ([]fs.DirEntry, error) {
	return entriesOf(f.f.ReadDir(ctx))
}
