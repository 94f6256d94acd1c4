package fsview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"lwio/internal/ntstatus"
)

// shareError is the error of the share of the tests.
type shareError struct{ err error }

func (e *shareError) Error() string { return "share: " + e.err.Error() }
func (e *shareError) Unwrap() error { return e.err }

// share is one in memory.
type share struct {
	files fstest.MapFS
}

func (s *share) do(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	var e *fs.PathError
	if errors.As(err, &e) {
		err = e.Err
	}
	return &shareError{err}
}

func (s *share) Open(ctx context.Context, name string) (File, error) {
	f, err := s.files.Open(name)
	if err := s.do(ctx, err); err != nil {
		return nil, err
	}
	return &file{s: s, name: name, f: f}, nil
}

func (s *share) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := s.files.Stat(name)
	return info, s.do(ctx, err)
}

func (s *share) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if info, err := s.files.Stat(name); err == nil && info.IsDir() {
		return nil, s.do(ctx, ntstatus.FileIsADirectory)
	}
	b, err := s.files.ReadFile(name)
	return b, s.do(ctx, err)
}

func (s *share) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	list, err := s.files.ReadDir(name)
	return list, s.do(ctx, err)
}

func (s *share) Cause(err error) error {
	var e *shareError
	if errors.As(err, &e) {
		return e.err
	}
	return err
}

// file is one of the share's.
type file struct {
	s    *share
	name string
	f    fs.File
}

func (f *file) OpenInfo() fs.FileInfo {
	info, err := f.f.Stat()
	if err != nil {
		panic(err)
	}
	return info
}

func (f *file) Stat(ctx context.Context) (fs.FileInfo, error) {
	info, err := f.f.Stat()
	return info, f.s.do(ctx, err)
}

func (f *file) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.s.do(ctx, nil); err != nil {
		return 0, err
	}
	n, err := f.f.(io.ReaderAt).ReadAt(p, off)
	if err == io.EOF {
		return n, err
	}
	return n, f.s.do(ctx, err)
}

func (f *file) ReadDir(ctx context.Context) ([]fs.DirEntry, error) {
	list, err := f.s.files.ReadDir(f.name)
	return list, f.s.do(ctx, err)
}

func (f *file) Close() error { return f.s.do(context.Background(), f.f.Close()) }

// sample is a share with some files and directories.
func sample() *share {
	return &share{files: fstest.MapFS{
		"a":           {Data: []byte("0123456789")},
		"b c":         {Data: bytes.Repeat([]byte("x"), 9000)},
		"dir/x":       {},
		"dir/sub/y":   {Data: []byte("y")},
		"dir/sub/z z": {Data: []byte("zz")},
		"empty":       {Mode: fs.ModeDir | 0o755},
	}}
}

func TestViewPassesTestFS(t *testing.T) {
	if err := fstest.TestFS(New(t.Context(), sample()), "a", "b c", "dir/x", "dir/sub/y", "dir/sub/z z", "empty"); err != nil {
		t.Error(err)
	}
}

// The root of every view is ".", with any name in the share.
func TestRootNameIsADot(t *testing.T) {
	view := New(t.Context(), sample())
	sub, err := fs.Sub(view, "dir/sub")
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]fs.FS{"share": view, "directory": sub} {
		info, err := fs.Stat(v, ".")
		if err != nil || info.Name() != "." || !info.IsDir() || !strings.HasSuffix(fmt.Sprint(info), " ./") {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := sub.Open("../x"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a path outside: %v", err)
	}
}

// Errors have the names of the view, and nothing of how the share puts them.
func TestErrorsHaveNamesOfView(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	view, err := fs.Sub(New(ctx, sample()), "dir")
	if err != nil {
		t.Fatal(err)
	}
	check := func(op, name string, err, want error) {
		t.Helper()
		var e *fs.PathError
		if !errors.As(err, &e) || e.Op != op || e.Path != name || e.Err != want { //nolint:errorlint // it is not to be wrapped
			t.Errorf("%s %s: %v, want %v", op, name, err, want)
		}
	}
	_, err = view.Open("none")
	check("open", "none", err, fs.ErrNotExist)
	_, err = fs.Stat(view, "none")
	check("stat", "none", err, fs.ErrNotExist)
	_, err = fs.ReadDir(view, "none")
	check("readdir", "none", err, fs.ErrNotExist)
	_, err = fs.ReadFile(view, "sub")
	check("read", "sub", err, ntstatus.FileIsADirectory)
	x, err := view.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.(fs.ReadDirFile).ReadDir(-1)
	check("readdir", "x", err, ntstatus.NotADirectory)
	sub, err := view.Open("sub")
	if err != nil {
		t.Fatal(err)
	}
	_, err = sub.Read(make([]byte, 1))
	check("read", "sub", err, ntstatus.FileIsADirectory)
	if list, err := sub.(fs.ReadDirFile).ReadDir(1); err != nil || len(list) != 1 || list[0].Name() != "y" {
		t.Errorf("%v, %v", list, err)
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	_, err = sub.(fs.ReadDirFile).ReadDir(1)
	check("readdir", "sub", err, fs.ErrClosed)

	cancel()
	_, err = x.Read(make([]byte, 1))
	check("read", "x", err, context.Canceled)
	_, err = x.Stat()
	check("stat", "x", err, context.Canceled)
	_, err = x.(io.Seeker).Seek(0, io.SeekEnd)
	check("seek", "x", err, context.Canceled)
	_, err = view.Open("sub")
	check("open", "sub", err, context.Canceled)
}

func TestSeekRefusesNegativeOffsets(t *testing.T) {
	f, err := New(t.Context(), sample()).Open("a")
	if err != nil {
		t.Fatal(err)
	}
	s := f.(io.Seeker)
	for _, tt := range []struct {
		off    int64
		whence int
		want   int64 // below 0: refused
	}{
		{4, io.SeekStart, 4}, {1, io.SeekCurrent, 5}, {-2, io.SeekCurrent, 3}, {-4, io.SeekCurrent, -1}, {0, io.SeekCurrent, 3},
		{0, io.SeekEnd, 10}, {5, io.SeekEnd, 15}, {-11, io.SeekEnd, -1}, {-1, io.SeekStart, -1}, {0, 3, -1}, {-3, io.SeekEnd, 7},
	} {
		got, err := s.Seek(tt.off, tt.whence)
		if tt.want < 0 && !errors.Is(err, fs.ErrInvalid) || tt.want >= 0 && (got != tt.want || err != nil) {
			t.Errorf("seek %d from %d: %d, %v", tt.off, tt.whence, got, err)
		}
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "789" {
		t.Errorf("%q, %v", b, err)
	}
}
