package lwio

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"

	"lwio/internal/ntstatus"
)

// FS is a view of the client's share as an fs.FS, for programs that read files
// that way. It is an fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and fs.SubFS. ctx
// bounds every call on the view and on its files. The files are io.ReaderAt and
// io.Seeker.
func (c *Client) FS(ctx context.Context) fs.FS { return &view{c, ctx, "."} }

// view is a directory of the share as a file system.
type view struct {
	c    *Client
	ctx  context.Context // fs.FS has no place for it
	root string
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

// rootless is name as the client has it: "" for the root.
func rootless(name string) string {
	if name == "." {
		return ""
	}
	return name
}

// pathError restates err for the names of the view.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		switch {
		case e.Remote:
			err = e.Status
		case e.Err != nil:
			err = e.Err
		}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (v *view) Open(name string) (fs.File, error) {
	full, err := v.full("open", name)
	if err != nil {
		return nil, err
	}
	f, err := v.c.open(v.ctx, full, openRequest{access: accessRead, share: shareAll, disposition: dispositionOpen, resumeKey: true})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &viewFile{f: f, ctx: v.ctx, name: name, dir: entryIsDir(f.h)}, nil
}

func entryIsDir(h handle) bool {
	e := h.created()
	return e.isDir()
}

func (v *view) Stat(name string) (fs.FileInfo, error) {
	full, err := v.full("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := v.c.Stat(v.ctx, full)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return infoOf(rootless(name), info.(*fileInfo).e), nil
}

func (v *view) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := v.full("readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := v.c.ReadDir(v.ctx, full)
	return list, pathError("readdir", name, err)
}

func (v *view) Sub(dir string) (fs.FS, error) {
	full, err := v.full("sub", dir)
	if err != nil {
		return nil, err
	}
	return &view{v.c, v.ctx, full}, nil
}

func (v *view) ReadFile(name string) ([]byte, error) {
	file, err := v.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f := file.(*viewFile)
	if f.dir {
		return nil, pathError("read", name, ntstatus.FileIsADirectory)
	}
	// One byte more than the file has tells whether it has grown.
	size := f.f.h.created()
	buf := make([]byte, min(size.size, maxReadFile)+1)
	n := 0
	for {
		m, err := f.f.ReadAtContext(v.ctx, buf[n:], int64(n))
		n += m
		switch {
		case errors.Is(err, io.EOF):
			return buf[:n], nil
		case err != nil:
			return nil, pathError("read", name, err)
		}
		buf = append(buf, make([]byte, len(buf))...)
	}
}

// maxReadFile bounds what ReadFile allocates before it has seen the bytes.
const maxReadFile = 64 << 20

// viewFile is a file or directory of a view.
type viewFile struct {
	f    *File
	ctx  context.Context // fs.File has no place for it
	name string
	dir  bool

	mu   sync.Mutex // guards what follows
	off  int64
	list []fs.DirEntry // the rest of the directory, once it was read
	read bool
}

var (
	_ fs.ReadDirFile = (*viewFile)(nil)
	_ io.ReaderAt    = (*viewFile)(nil)
	_ io.Seeker      = (*viewFile)(nil)
)

func (f *viewFile) Stat() (fs.FileInfo, error) {
	info, err := f.f.Stat(f.ctx)
	if err != nil {
		return nil, pathError("stat", f.name, err)
	}
	return infoOf(rootless(f.name), info.(*fileInfo).e), nil
}

func (f *viewFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.ReadAt(p, f.off)
	f.off += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *viewFile) ReadAt(p []byte, off int64) (int, error) {
	if f.dir {
		return 0, pathError("read", f.name, ntstatus.FileIsADirectory)
	}
	n, err := f.f.ReadAtContext(f.ctx, p, off)
	if err == io.EOF { //nolint:errorlint // bare io.EOF is part of the contract of io.ReaderAt
		return n, err
	}
	return n, pathError("read", f.name, err)
}

func (f *viewFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		info, err := f.f.Stat(f.ctx)
		if err != nil {
			return 0, pathError("seek", f.name, err)
		}
		offset += info.Size()
	default:
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	f.off = offset
	return offset, nil
}

// ReadDir follows fs.ReadDirFile.
func (f *viewFile) ReadDir(n int) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dir {
		return nil, pathError("readdir", f.name, ntstatus.NotADirectory)
	}
	if err := f.f.check(f.ctx, 0, 0); err != nil {
		return nil, pathError("readdir", f.name, err)
	}
	if !f.read {
		ctx, cancel := f.f.c.cfg.bounded(f.ctx)
		defer cancel()
		list, err := listing(ctx, f.f.h)
		if err != nil {
			return nil, pathError("readdir", f.name, err)
		}
		f.list, f.read = list, true
	}
	if n <= 0 {
		list := f.list
		f.list = nil
		return list, nil
	}
	if len(f.list) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.list))
	list := f.list[:n:n]
	f.list = f.list[n:]
	return list, nil
}

func (f *viewFile) Close() error { return pathError("close", f.name, f.f.Close()) }
