package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"lwio"
)

// tree is a place that files are copied from or to: the local file system or a
// share. Names have the separator of their system.
type tree interface {
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	Mkdir(ctx context.Context, name string) error
	// Keep gives the copy of a file or directory the attributes of its source.
	Keep(ctx context.Context, name string, a attributes) error
	Join(dir, base string) string
	// Open opens a file to copy from.
	Open(ctx context.Context, name string) (fileSource, error)
	// ReadSmall reads the bytes of a file into p, of at least one byte. It reports false for n if the
	// file has len(p) bytes or more.
	ReadSmall(ctx context.Context, name string, p []byte) (n int, whole bool, err error)
	// WriteSmall creates or replaces a file, which gets attributes as by Keep if a is not nil. After an error that is
	// not lwio.ErrUncertain the name stands for the same file as before.
	WriteSmall(ctx context.Context, name string, data []byte, a *attributes) error
	// Create begins a file that appears under its name only by Commit.
	Create(ctx context.Context, name string) (pendingFile, error)
	// Resume is Create for a file with the data under a name of its own in the same directory,
	// which the end of the process leaves there.
	Resume(ctx context.Context, name, part string) (pendingPart, error)
	// Describe names a file for messages.
	Describe(name string) string
	// Depth is the number of requests that may be in flight.
	Depth() int
}

// fileSource is an open file to copy from.
type fileSource interface {
	source
	// Sparse reports whether the file may have holes.
	Sparse() bool
	// Close closes the file; why is the error of the copy.
	Close(why error) error
}

// pendingFile is a file that is being written under a temporary name.
type pendingFile interface {
	sink
	// Source reads the written data back.
	Source(size int64) source
	// Commit gives the file its name, and replaces a file of that name. After an error that
	// is lwio.ErrUncertain either file may have the name.
	Commit(ctx context.Context) error
	// Abort removes the unfinished file; why is the error of the copy. After Commit it does
	// nothing.
	Abort(why error) error
}

// newFileMode is the mode of new files, before the umask.
const newFileMode fs.FileMode = 0o666

var (
	errNotRegular = errors.New("not a regular file")
	errInTheWay   = errors.New("something that is not a file is in the way")
)

// localTree is the local file system.
type localTree struct{}

func (localTree) Stat(_ context.Context, name string) (fs.FileInfo, error) { return os.Stat(name) }
func (localTree) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	return os.ReadDir(name)
}
func (localTree) Mkdir(_ context.Context, name string) error { return os.Mkdir(name, 0o777) }
func (localTree) Join(dir, base string) string               { return filepath.Join(dir, base) }
func (localTree) Describe(name string) string                { return name }
func (localTree) Depth() int                                 { return maxDepth }

// Open opens a regular file. Any other file, such as a pipe, is refused without opening it.
// The size of a file whose reported size is 0, as in /proc, is unknown.
func (localTree) Open(_ context.Context, name string) (fileSource, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	size := fi.Size()
	if size == 0 {
		if n, _ := f.Read(make([]byte, 1)); n > 0 {
			size = -1
		}
	}
	return &localSource{f, size, isSparse(fi)}, nil
}

// localSource is a local file.
type localSource struct {
	f      *os.File
	size   int64
	sparse bool
}

func (s *localSource) Size() int64       { return s.size }
func (s *localSource) Sparse() bool      { return s.sparse }
func (s *localSource) Close(error) error { return s.f.Close() }

func (s *localSource) ReadChunk(_ context.Context, p []byte, off int64) (int, error) {
	return s.f.ReadAt(p, off)
}

// Create makes a temporary file beside the final name.
func (localTree) Create(_ context.Context, name string) (pendingFile, error) {
	if fi, err := os.Stat(name); err == nil && !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "create", Path: name, Err: errInTheWay}
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".lwio-*.part")
	if err != nil {
		return nil, renamed(err, "create", name)
	}
	return &localPending{f: f, name: name}, nil
}

// renamed returns an error with the final name in place of the temporary name, which the
// user does not know.
func renamed(err error, op, name string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: op, Path: name, Err: pe.Err}
	}
	return err
}

// localPending is a local file that is not finished.
type localPending struct {
	// mu admits one writer at a time: other writers would spin in the kernel for the file's
	// lock.
	mu sync.Mutex

	f    *os.File
	name string
	done bool
}

func (p *localPending) Ordered() bool { return false }

func (p *localPending) WriteChunk(_ context.Context, b []byte, off int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.f.WriteAt(b, off)
	return renamed(err, "write", p.name)
}

func (p *localPending) Source(size int64) source { return &localSource{f: p.f, size: size} }

// Commit renames the file, with the mode of the file that it replaces, or of a newly
// created file.
func (p *localPending) Commit(context.Context) error {
	mode := newFileMode &^ umask()
	if fi, err := os.Stat(p.name); err == nil {
		mode = fi.Mode().Perm()
	}
	if err := errors.Join(p.f.Chmod(mode), p.f.Close()); err != nil {
		return err
	}
	if err := os.Rename(p.f.Name(), p.name); err != nil {
		return err
	}
	p.done = true
	return nil
}

func (p *localPending) Abort(error) error {
	if p.done {
		return nil
	}
	p.done = true
	p.f.Close()
	return os.Remove(p.f.Name())
}

// remoteTree is a share.
type remoteTree struct {
	c *lwio.Client
	t *lwio.Target
}

func (r remoteTree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return r.c.Stat(ctx, name)
}
func (r remoteTree) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return r.c.ReadDir(ctx, name)
}
func (r remoteTree) Mkdir(ctx context.Context, name string) error { return r.c.Mkdir(ctx, name, 0o777) }
func (r remoteTree) Join(dir, base string) string                 { return path.Join(dir, base) }
func (r remoteTree) Depth() int                                   { return r.c.MaxInFlight() }

func (r remoteTree) Describe(name string) string {
	return fmt.Sprintf("lwio://%s/%s/%s", r.t.Host, r.t.Share, name)
}

func (r remoteTree) Open(ctx context.Context, name string) (fileSource, error) {
	return openRemote(ctx, r.c, name)
}

func (r remoteTree) ReadSmall(ctx context.Context, name string, p []byte) (n int, whole bool, err error) {
	n, info, err := r.c.ReadHead(ctx, name, p)
	return n, err == nil && n < len(p) && info.Size() == int64(n), err
}

func (r remoteTree) WriteSmall(ctx context.Context, name string, data []byte, a *attributes) error {
	var with lwio.Attributes
	if a != nil {
		with = lwio.Attributes{Accessed: a.accessed, Modified: a.modified, ReadOnly: a.readOnly}
	}
	return untilCertain(func() error { return r.c.WriteFileWith(ctx, name, data, with) })
}

func (r remoteTree) Create(ctx context.Context, name string) (pendingFile, error) {
	f, err := r.c.CreatePending(ctx, name)
	if err != nil {
		return nil, err
	}
	return &remotePending{f}, nil
}
