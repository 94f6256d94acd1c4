package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"lwio"
)

// resumeWindow bounds the bytes between the first one that is not written yet and the last one that is, in a
// copy that can be resumed. A part has all bytes but those of one window before its end.
const resumeWindow = maxDepth * chunkSize

// errNoResume is the error of a source whose copy cannot be resumed.
var errNoResume = errors.New("its size is unknown, so its copy cannot be resumed")

// partName names the unfinished copy of a file: another source, another state of the source and another
// destination have another name.
func partName(src tree, from string, info fs.FileInfo, base string) string {
	if _, local := src.(localTree); local {
		if abs, err := filepath.Abs(from); err == nil {
			from = abs
		}
	}
	id := fmt.Sprintf("%s\x00%d\x00%d\x00%s", src.Describe(from), info.Size(), info.ModTime().UnixNano(), base)
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf(".lwio-%x.part", sum[:12])
}

// resume returns the offset at which a copy that an earlier process may have begun goes on. All bytes before
// it were written, and the last window of them is compared.
func (j *copyJob) resume(ctx context.Context, in source, part pendingPart) (begin int64, err error) {
	have := part.Size()
	begin = max(min(have, in.Size())-resumeWindow, 0) / chunkSize * chunkSize
	if have > in.Size() {
		begin = 0
	}
	if begin == 0 {
		return 0, part.Truncate(ctx)
	}
	// The chunks of the window before begin have the same bytes, or the copy begins anew.
	check := &compareSink{other: part.Source(begin)}
	_, err = transfer(ctx, sizedSource{in, begin}, check, transferOptions{depth: 1, begin: max(begin-resumeWindow, 0)})
	if errors.Is(err, errDiffers) {
		return 0, part.Truncate(ctx)
	}
	return begin, err
}

// present reports whether the destination is a copy of the source already: a file of the same size that is
// not older, and with --verify of the same content.
func (j *copyJob) present(ctx context.Context, info fs.FileInfo, in source, dst tree, to string) (bool, error) {
	fi, err := dst.Stat(ctx, to)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() != info.Size() || fi.ModTime().Before(info.ModTime()) {
		return false, nil // the copy itself reports an error
	}
	if !j.opts.verify {
		return true, nil
	}
	copied, err := dst.Open(ctx, to)
	if err != nil {
		return false, err
	}
	err = compare(ctx, in, copied, transferOptions{depth: dst.Depth()})
	_ = copied.Close(err) // it was only read
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil, err
}

// pendingPart is an unfinished copy with a name of its own, which a failed copy leaves for the next one.
type pendingPart interface {
	pendingFile
	// Size is the number of bytes that the file had when it was opened.
	Size() int64
	// Truncate removes all bytes.
	Truncate(ctx context.Context) error
}

// localPart is a pendingPart of the local file system.
type localPart struct {
	localPending
	size int64
}

// Resume opens the unfinished copy of a file.
func (localTree) Resume(_ context.Context, name, part string) (pendingPart, error) {
	if fi, err := os.Stat(name); err == nil && !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "create", Path: name, Err: errors.New("something that is not a file is in the way")}
	}
	f, size, err := openPart(filepath.Join(filepath.Dir(name), part))
	if err != nil {
		return nil, renamed(err, "create", name)
	}
	return &localPart{localPending{f: f, name: name}, size}, nil
}

// openPart opens an unfinished copy, or begins one. The name can be known to other users that may write to the directory.
// So a link, and a file of another user, is no unfinished copy and is removed: the copy would change the target of the
// link, and would take bytes of the other user for those of the source.
func openPart(name string) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(name, os.O_RDWR|openPartFlags, 0)
	if err == nil {
		fi, err := f.Stat()
		if err == nil && isOwnPart(fi) {
			return f, fi.Size(), nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, 0, err
		}
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return f, 0, err
}

func (p *localPart) Size() int64                    { return p.size }
func (p *localPart) Truncate(context.Context) error { return p.f.Truncate(0) }

// Abort leaves the file for the next copy, without data that is wrong.
func (p *localPart) Abort(why error) error {
	if p.done {
		return nil
	}
	p.done = true
	var err error
	if errors.Is(why, errDiffers) {
		err = p.f.Truncate(0)
	}
	return errors.Join(err, p.f.Close())
}

// remotePart is a pendingPart of a share.
type remotePart struct {
	c          *lwio.Client
	f          *lwio.File
	part, name string
	closed     bool
}

// Resume opens the unfinished copy of a file.
func (r remoteTree) Resume(ctx context.Context, name, part string) (pendingPart, error) {
	if fi, err := r.c.Stat(ctx, name); err == nil && fi.IsDir() {
		return nil, &fs.PathError{Op: "create", Path: r.Describe(name), Err: errors.New("a directory is in the way")}
	}
	part = path.Join(path.Dir(name), part)
	f, err := r.c.OpenFile(ctx, part, os.O_RDWR|os.O_CREATE, 0)
	if err != nil {
		return nil, err
	}
	return &remotePart{c: r.c, f: f, part: part, name: name}, nil
}

func (p *remotePart) Ordered() bool                      { return false }
func (p *remotePart) Size() int64                        { return p.f.OpenInfo().Size() }
func (p *remotePart) Source(size int64) source           { return &remoteSource{p.f, size} }
func (p *remotePart) Truncate(ctx context.Context) error { return p.f.Truncate(ctx, 0) }

func (p *remotePart) WriteChunk(ctx context.Context, b []byte, off int64) error {
	return writeAgain(ctx, p.f, b, off)
}

// Commit closes the file and renames it.
func (p *remotePart) Commit(ctx context.Context) error {
	p.closed = true
	if err := p.f.Close(); err != nil {
		return err
	}
	return renameSurely(func() error { return p.c.Rename(ctx, p.part, p.name) })
}

// renameSurely repeats a rename whose outcome is unknown after a loss. If the old name is missing then, the
// first one was done: no other program uses the name of a part.
func renameSurely(rename func() error) error {
	uncertain := false
	return untilCertain(func() error {
		err := rename()
		if uncertain && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		uncertain = uncertain || errors.Is(err, lwio.ErrUncertain)
		return err
	})
}

// Abort leaves the file for the next copy, without data that is wrong.
func (p *remotePart) Abort(why error) error {
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if errors.Is(why, errDiffers) {
		err = p.f.Truncate(context.Background(), 0)
	}
	return errors.Join(err, closeRemote(p.f, why))
}
