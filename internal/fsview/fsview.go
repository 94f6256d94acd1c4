// Package fsview shows a share as an fs.FS, for programs that read files that way.
package fsview

import (
	"context"
	"io/fs"
	"path"
)

// Share is the shown tree. Names are slash-separated and relative to its root, which is
// ".". Safe for concurrent use.
type Share interface {
	// Open opens a file or directory for reading.
	Open(ctx context.Context, name string) (File, error)
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
	// ReadFile returns the content of a file.
	ReadFile(ctx context.Context, name string) ([]byte, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Cause is an error of the share's without the operation and the name.
	Cause(err error) error
}

// File is an open file or directory of a Share. Safe for concurrent use.
type File interface {
	// OpenInfo describes it as it was when it was opened.
	OpenInfo() fs.FileInfo
	Stat(ctx context.Context) (fs.FileInfo, error)
	// ReadAtContext follows io.ReaderAt.
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(ctx context.Context) ([]fs.DirEntry, error)
	Close() error
}

// New is a view of a share. It is an fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and fs.SubFS.
// ctx bounds every call on the view and on its files. The files are io.ReaderAt and
// io.Seeker. Safe for concurrent use, as are its files.
//
// Errors: *fs.PathError, with the names of the view.
func New(ctx context.Context, share Share) fs.FS { return &view{share, ctx, "."} }

// view is a directory of the share as a file system.
type view struct {
	share Share
	ctx   context.Context // fs.FS has no place for it
	root  string
}

var (
	_ fs.ReadDirFS  = (*view)(nil)
	_ fs.ReadFileFS = (*view)(nil)
	_ fs.StatFS     = (*view)(nil)
	_ fs.SubFS      = (*view)(nil)
)

// full is the name in the share of a name in the view.
func (v *view) full(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(v.root, name), nil
}

// rootInfo describes the root of a view.
type rootInfo struct{ fs.FileInfo }

// Name is the name of every root.
func (rootInfo) Name() string { return "." }

// String is one line for readers.
func (i rootInfo) String() string { return fs.FormatFileInfo(i) }

// named is the answer to Stat of a name in the view.
func named(name string, info fs.FileInfo) fs.FileInfo {
	if name == "." {
		return rootInfo{info}
	}
	return info
}

// failed restates err for the names of the view.
func (v *view) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: v.share.Cause(err)}
}

func (v *view) Open(name string) (fs.File, error) {
	full, err := v.full("open", name)
	if err != nil {
		return nil, err
	}
	f, err := v.share.Open(v.ctx, full)
	if err != nil {
		return nil, v.failed("open", name, err)
	}
	return &viewFile{v: v, f: f, name: name, dir: f.OpenInfo().IsDir()}, nil
}

func (v *view) Stat(name string) (fs.FileInfo, error) {
	full, err := v.full("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := v.share.Stat(v.ctx, full)
	if err != nil {
		return nil, v.failed("stat", name, err)
	}
	return named(name, info), nil
}

func (v *view) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := v.full("readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := v.share.ReadDir(v.ctx, full)
	return list, v.failed("readdir", name, err)
}

func (v *view) Sub(dir string) (fs.FS, error) {
	full, err := v.full("sub", dir)
	if err != nil {
		return nil, err
	}
	return &view{v.share, v.ctx, full}, nil
}

func (v *view) ReadFile(name string) ([]byte, error) {
	full, err := v.full("open", name)
	if err != nil {
		return nil, err
	}
	b, err := v.share.ReadFile(v.ctx, full)
	if err != nil {
		return nil, v.failed("read", name, err)
	}
	return b, nil
}
