package fsview

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"lwio/internal/ntstatus"
)

// viewFile is a file or directory of a view.
type viewFile struct {
	v    *view
	f    File
	name string
	dir  bool

	closed atomic.Bool

	mu   sync.Mutex // guards the following fields
	off  int64
	list []fs.DirEntry // the rest of the directory, once it was read
	read bool
	// missing is the error of the listing if it has not all entries. It follows them.
	missing error
}

var (
	_ fs.ReadDirFile = (*viewFile)(nil)
	_ io.ReaderAt    = (*viewFile)(nil)
	_ io.Seeker      = (*viewFile)(nil)
)

func (f *viewFile) Stat() (fs.FileInfo, error) {
	info, err := f.f.Stat(f.v.ctx)
	if err != nil {
		return nil, f.v.failed("stat", f.name, err)
	}
	return named(f.name, info), nil
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
		return 0, f.v.failed("read", f.name, ntstatus.FileIsADirectory)
	}
	n, err := f.f.ReadAtContext(f.v.ctx, p, off)
	if err == io.EOF { //nolint:errorlint // bare io.EOF is part of the contract of io.ReaderAt
		return n, err
	}
	return n, f.v.failed("read", f.name, err)
}

func (f *viewFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		info, err := f.f.Stat(f.v.ctx)
		if err != nil {
			return 0, f.v.failed("seek", f.name, err)
		}
		offset += info.Size()
	default:
		return 0, f.v.failed("seek", f.name, fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, f.v.failed("seek", f.name, fs.ErrInvalid)
	}
	f.off = offset
	return offset, nil
}

// ReadDir follows fs.ReadDirFile.
func (f *viewFile) ReadDir(n int) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.dir:
		return nil, f.v.failed("readdir", f.name, ntstatus.NotADirectory)
	case f.closed.Load():
		return nil, f.v.failed("readdir", f.name, fs.ErrClosed)
	}
	if !f.read {
		list, err := f.f.ReadDir(f.v.ctx)
		err = f.v.failed("readdir", f.name, err)
		if err != nil && len(list) == 0 {
			return nil, err
		}
		f.list, f.missing, f.read = list, err, true
	}
	if n <= 0 {
		list, err := f.list, f.missing
		f.list, f.missing = nil, nil
		return list, err
	}
	if len(f.list) == 0 {
		err := f.missing
		if f.missing = nil; err == nil {
			err = io.EOF
		}
		return nil, err
	}
	n = min(n, len(f.list))
	list := f.list[:n:n]
	f.list = f.list[n:]
	return list, nil
}

func (f *viewFile) Close() error {
	f.closed.Store(true)
	return f.v.failed("close", f.name, f.f.Close())
}
