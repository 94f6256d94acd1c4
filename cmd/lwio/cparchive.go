package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lwio"
)

// attributes are the properties of a file or directory that cp -a keeps beside its content.
type attributes struct {
	accessed, modified time.Time // zero: not known
	readOnly           bool      // its owner may not write to it; not for directories
}

// inode is the description of the file behind a name by a listing.
type inode struct {
	key       [2]uint64 // the same for all names of a file; zero if it is not known
	many      bool      // the file may have other names
	allocated int64     // bytes; -1 if not known
	accessed  time.Time
}

// inodeOf returns the description of a file by its tree.
func inodeOf(fi fs.FileInfo) inode {
	if i, ok := fi.Sys().(*lwio.SMBInfo); ok {
		return inode{key: [2]uint64{1, i.ID}, many: i.ID != 0, allocated: i.AllocationSize, accessed: i.Accessed}
	}
	return localInode(fi)
}

// attributesOf returns the attributes of a file or directory.
func attributesOf(fi fs.FileInfo) attributes {
	return attributes{accessed: inodeOf(fi).accessed, modified: fi.ModTime(), readOnly: !fi.IsDir() && fi.Mode()&0o200 == 0}
}

// isSparse reports whether a file may have holes: at least one block has no space on the disk.
func isSparse(fi fs.FileInfo) bool {
	allocated := inodeOf(fi).allocated
	return allocated >= 0 && fi.Size()-allocated >= holeSize
}

// keep gives the copy of a file or directory the attributes of its source.
func (j *copyJob) keep(ctx context.Context, dst tree, to string, a attributes) error {
	if err := dst.Keep(ctx, to, a); err != nil {
		return fmt.Errorf("cp: %s has the content of its source, but not its times and attributes: %w", dst.Describe(to), err)
	}
	return nil
}

// Keep sets times, and takes away or gives the permission to write.
func (localTree) Keep(_ context.Context, name string, a attributes) error {
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	mode := fi.Mode().Perm() | 0o200
	if a.readOnly {
		mode &^= 0o222
	}
	if !fi.IsDir() && mode != fi.Mode().Perm() {
		err = os.Chmod(name, mode)
	}
	return errors.Join(err, os.Chtimes(name, a.accessed, a.modified))
}

// Keep sets times, and the attribute for reading only. The copy is a new file, so it has no such attribute.
func (r remoteTree) Keep(ctx context.Context, name string, a attributes) error {
	err := r.c.Chtimes(ctx, name, a.accessed, a.modified)
	if err == nil && a.readOnly {
		err = r.c.Chmod(ctx, name, 0o444)
	}
	return err
}

// linker is a tree whose files may have several names.
type linker interface {
	// Link gives a file another name, in place of a file there.
	Link(old, name string) error
}

// Link makes a link under a temporary name and renames it, as Create does.
func (localTree) Link(old, name string) error {
	if a, err := os.Stat(old); err == nil {
		if b, err := os.Lstat(name); err == nil && os.SameFile(a, b) {
			return nil
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(name), ".lwio-*.part")
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, "link")
	if err = os.Link(old, temporary); err == nil {
		err = os.Rename(temporary, name)
	}
	return errors.Join(renamed(err, "link", name), os.RemoveAll(dir))
}

// holeSize is the unit of holes, in bytes: a file system has no smaller ones, apart from rare ones.
const holeSize = 4 << 10

var noBytes [holeSize]byte

// extender is a pendingFile that can get a size before it has bytes.
type extender interface {
	Extend(ctx context.Context, size int64) error
}

func (p *localPending) Extend(_ context.Context, size int64) error {
	return renamed(p.f.Truncate(size), "write", p.name)
}

func (p *remotePending) Extend(ctx context.Context, size int64) error {
	return untilCertain(func() error { return p.f.Truncate(ctx, size) })
}

// sparseSink leaves out the blocks of zeros of a file that has its size.
type sparseSink struct{ sink }

func (s sparseSink) WriteChunk(ctx context.Context, p []byte, off int64) error {
	for at := 0; at < len(p); {
		begin, end := nextData(p, at)
		if begin == end {
			return nil
		}
		if err := s.sink.WriteChunk(ctx, p[begin:end], off+int64(begin)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// nextData returns the next blocks of p from a block on that are not all zeros; none if all that follow are.
func nextData(p []byte, at int) (begin, end int) {
	hole := func(at int) bool {
		n := min(holeSize, len(p)-at)
		return bytes.Equal(p[at:at+n], noBytes[:n])
	}
	for begin = at; begin < len(p) && hole(begin); begin += holeSize {
	}
	for end = begin; end < len(p) && !hole(end); end += holeSize {
	}
	return min(begin, len(p)), min(end, len(p))
}

// sparse returns the sink of a file that may have holes: cp -a keeps them. A copy that goes on where another one
// ended takes its beginning from the size of the file, and so has no holes.
func (j *copyJob) sparse(ctx context.Context, in fileSource, out pendingFile) (sink, error) {
	e, ok := out.(extender)
	if !j.opts.archive || j.opts.resume || !in.Sparse() || !ok {
		return out, nil
	}
	return sparseSink{out}, e.Extend(ctx, in.Size())
}

// firstName is the first name of a file that has several, in the copy.
type firstName struct {
	to     string
	copied atomic.Bool
}

// keptDir is a directory of a copy.
type keptDir struct {
	to string
	attributes
}

// laterName is another name of a file.
type laterName struct {
	fileJob
	first *firstName
}

// archive is the work of cp -a after the copies. Only the goroutine that walks the source uses it, and after it
// the one that finishes the copy.
type archive struct {
	dirs  []keptDir
	names map[[2]uint64]*firstName
	later []laterName

	separate, executable int // names that are files of their own, and files without their permission to execute
}

// add notes a file, and reports true if it is another name of a file before it, which will be a link.
func (a *archive) add(job *fileJob, fi fs.FileInfo, dst tree) (later bool) {
	_, links := dst.(linker)
	if !links && fi.Mode()&0o111 != 0 {
		a.executable++
	}
	i := inodeOf(fi)
	if !i.many {
		return false
	}
	if a.names == nil {
		a.names = make(map[[2]uint64]*firstName)
	}
	first := a.names[i.key]
	switch {
	case first == nil:
		job.first = &firstName{to: job.to}
		a.names[i.key] = job.first
	case links:
		a.later = append(a.later, laterName{*job, first})
		return true
	default:
		a.separate++
	}
	return false
}

// errNoLink is the error of a symbolic link, and errNoSpecial of a device or pipe, of a source of cp -a.
var (
	errNoLink    = errors.New("not copied: a share holds no symbolic links")
	errNoSpecial = errors.New("not copied: a share holds files and directories only")
)

// uncopied is the error of an entry of a type that a share cannot hold.
func uncopied(name string, mode fs.FileMode) error {
	if mode&fs.ModeSymlink != 0 {
		return &fs.PathError{Op: "cp", Path: name, Err: errNoLink}
	}
	return &fs.PathError{Op: "cp", Path: name, Err: errNoSpecial}
}

// finish makes links and then sets the times of directories, which the copies have changed.
func (t *treeCopy) finish(ctx context.Context, cancel func()) {
	a := t.archive
	for _, l := range a.later {
		if ctx.Err() != nil {
			return
		}
		err := fmt.Errorf("cp %s: not linked: %s was not copied", t.src.Describe(l.from), t.dst.Describe(l.first.to))
		if l.first.copied.Load() {
			err = t.dst.(linker).Link(l.first.to, l.to)
		}
		if err != nil {
			t.fail(ctx, err, cancel)
			continue
		}
		t.files.Add(1)
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, treeWorkers)
	for _, d := range a.dirs {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if ctx.Err() != nil {
				return
			}
			if err := t.keep(ctx, t.dst, d.to, d.attributes); err != nil {
				t.fail(ctx, err, cancel)
			}
		})
	}
	wg.Wait()
	if a.separate > 0 {
		fmt.Fprintf(t.bar, "lwio: cp: %d names of files with several names are files of their own: a share makes no links\n", a.separate)
	}
	if a.executable > 0 {
		fmt.Fprintf(t.bar, "lwio: cp: %d files lose their permission to execute: a share has none\n", a.executable)
	}
}
