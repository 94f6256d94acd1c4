package sqlitevfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"lwio"
	"lwio/internal/ntstatus"
)

// The time limits of one call of SQLite. Within callTime a change is repeated, and an open waits for
// another client to finish the delete of the file.
const (
	callTime = time.Minute
	pause    = 5 * time.Millisecond
)

// Register gives SQLite the files of a client's share under the name of a file system, until
// Unregister.
func Register(name string, c *lwio.Client) { vfs.Register(name, &share{c: c}) }

// Unregister removes a file system. Databases that are open stay open.
func Unregister(name string) { vfs.Unregister(name) }

// share is the file system of one client. Safe for concurrent use.
type share struct {
	c        *lwio.Client
	repeated atomic.Uint64 // changes made again
}

var _ vfs.VFSFilename = (*share)(nil)

// nameOf is the name of a file of the share. SQLite may give it with a slash in front.
func nameOf(name string) string { return strings.TrimLeft(path.Clean(name), "/") }

// FullPathname returns the name that SQLite compares, and to which it appends "-journal" and "-wal".
func (s *share) FullPathname(name string) (string, error) { return path.Clean(name), nil }

// Open opens a file without a Filename. SQLite calls OpenFilename.
func (s *share) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, err := s.open(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return f, flags, nil
}

// OpenFilename opens a database or a journal. A file without a name is temporary, and local.
func (s *share) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name.String() == "" {
		return vfs.Find("os").(vfs.VFSFilename).OpenFilename(nil, flags)
	}
	f, err := s.open(name.String(), flags)
	if err != nil {
		return nil, flags, err
	}
	switch {
	case flags&vfs.OPEN_MAIN_DB != 0:
		f.database = f
	case flags&(vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_WAL) != 0:
		f.database = unwrapped(name.DatabaseFile())
	}
	return f, flags, nil
}

// unwrapped returns a file of this package under the layers of others, or nil.
func unwrapped(f vfs.File) *file {
	for {
		switch g := f.(type) {
		case *file:
			return g
		case vfs.FileUnwrap:
			f = g.Unwrap()
		default:
			return nil
		}
	}
}

func (s *share) open(name string, flags vfs.OpenFlag) (*file, error) {
	how := os.O_RDWR
	if flags&vfs.OPEN_READONLY != 0 {
		how = os.O_RDONLY
	}
	if flags&vfs.OPEN_CREATE != 0 {
		how |= os.O_CREATE
	}
	if flags&vfs.OPEN_EXCLUSIVE != 0 {
		how |= os.O_EXCL
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var f *lwio.File
	err := s.patiently(ctx, func() (err error) {
		f, err = s.c.OpenFile(ctx, nameOf(name), how, 0)
		return err
	})
	switch {
	case errors.Is(err, syscall.EISDIR):
		return nil, vfs.SystemError(err, sqlite3.CANTOPEN_ISDIR)
	case err != nil:
		return nil, err
	}
	return &file{s: s, f: f, name: name, temporary: flags&vfs.OPEN_DELETEONCLOSE != 0}, nil
}

// patiently calls do again while another client has the file open and marked for deletion.
func (s *share) patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, ntstatus.DeletePending) && !errors.Is(err, ntstatus.SharingViolation) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Delete removes a file. The protocol has no sync of a directory. With syncDir the file is emptied
// on stable storage first: should the removal be lost with the power of the server, an empty file
// is left, which Access reports as missing.
func (s *share) Delete(name string, syncDir bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if syncDir {
		if err := s.empty(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return vfs.SystemError(err, sqlite3.IOERR_DIR_FSYNC)
		}
	}
	uncertain := false
	for {
		err := s.patiently(ctx, func() error { return s.c.Remove(ctx, nameOf(name)) })
		switch {
		case err == nil, uncertain && errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrNotExist):
			return vfs.SystemError(err, sqlite3.IOERR_DELETE_NOENT)
		case !errors.Is(err, lwio.ErrUncertain) || ctx.Err() != nil:
			return err
		}
		uncertain = true
		s.repeated.Add(1)
	}
}

// empty truncates a file on stable storage.
func (s *share) empty(ctx context.Context, name string) error {
	f, err := s.c.OpenFile(ctx, nameOf(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(ctx, 0), f.Sync(ctx), f.Close())
}

// Access reports whether a file exists and is not empty, as SQLite's file system for Unix does, or
// whether it can be used.
func (s *share) Access(name string, flags vfs.AccessFlag) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	info, err := s.c.Stat(ctx, nameOf(name))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ntstatus.DeletePending):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("access %s: %w", name, err)
	case flags == vfs.ACCESS_EXISTS:
		return info.IsDir() || info.Size() > 0, nil
	case flags == vfs.ACCESS_READWRITE:
		return info.Mode()&0o200 != 0, nil
	}
	return true, nil
}
