package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
)

// treeWorkers is the number of files of a directory that are copied at a time. Small files
// wait for round trips, not for bytes.
const treeWorkers = 16

// maxReported bounds the failures of a directory that are printed one by one.
const maxReported = 20

// fileJob is one file of a directory copy.
type fileJob struct {
	from, to string
	size     int64 // by the listing; -1 if it is not known
	sparse   bool  // by the listing

	kept  *attributes // of cp -a
	first *firstName  // of cp -a, if the file may have other names
}

// treeCopy is the copy of one directory.
type treeCopy struct {
	*copyJob
	src, dst tree

	files, bytes atomic.Int64

	archive *archive // nil without -a

	mu     sync.Mutex
	failed []error
	lost   bool // the connection is lost, or the server does not respond: the copy stops
}

// directory copies a directory with all of its entries. It continues after the failure of a
// file, and its error names the files that were not copied. It returns the number of files
// and bytes that arrived.
func (j *copyJob) directory(ctx context.Context, src tree, from string, dst tree, to string) (files, bytes int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &treeCopy{copyJob: j, src: src, dst: dst}
	root := fileJob{from: from, to: to}
	if j.opts.archive {
		t.archive = new(archive)
		if root.kept, err = kept(src.Stat(ctx, from)); err != nil {
			return 0, 0, err
		}
	}
	jobs := make(chan fileJob, treeWorkers)
	var wg sync.WaitGroup
	for range treeWorkers {
		wg.Go(func() {
			for job := range jobs {
				if ctx.Err() != nil {
					continue
				}
				n, err := t.fileKept(ctx, job)
				if err != nil {
					t.fail(ctx, err, cancel)
					continue
				}
				t.files.Add(1)
				t.bytes.Add(n)
			}
		})
	}
	t.walk(ctx, root, jobs, cancel)
	close(jobs)
	wg.Wait()
	if t.archive != nil {
		t.finish(ctx, cancel)
	}
	return t.files.Load(), t.bytes.Load(), t.report(context.Cause(ctx))
}

// walk makes the directories below a name and sends its files to jobs.
func (t *treeCopy) walk(ctx context.Context, dir fileJob, jobs chan<- fileJob, cancel func()) {
	if ctx.Err() != nil {
		return
	}
	// The list comes first: the destination may be in this directory, by another path or URL.
	entries, unread := t.src.ReadDir(ctx, dir.from)
	if err := t.makeDir(ctx, dir.to); err != nil {
		t.fail(ctx, err, cancel)
		return
	}
	if dir.kept != nil {
		t.archive.dirs = append(t.archive.dirs, keptDir{dir.to, *dir.kept})
	}
	if unread != nil {
		t.fail(ctx, unread, cancel)
	}
	for _, e := range entries {
		job := fileJob{from: t.src.Join(dir.from, e.Name()), to: t.dst.Join(dir.to, e.Name()), size: -1}
		fi, err := e.Info()
		if t.archive != nil {
			if job.kept, err = kept(fi, err); err != nil {
				t.fail(ctx, err, cancel)
				continue
			}
		}
		switch {
		case e.IsDir():
			t.walk(ctx, job, jobs, cancel)
		case e.Type().IsRegular():
			if err == nil {
				job.size, job.sparse = fi.Size(), isSparse(fi)
				t.bar.expect(job.size)
			}
			if t.archive != nil && t.archive.add(&job, fi, t.dst) {
				t.bar.add(int(job.size))
				continue
			}
			select {
			case jobs <- job:
			case <-ctx.Done():
				return
			}
		case t.archive != nil:
			t.fail(ctx, uncopied(t.src.Describe(job.from), e.Type()), cancel)
		default:
			fmt.Fprintf(t.bar, "lwio: cp %s: skipped: neither a file nor a directory\n", printable(t.src.Describe(job.from)))
		}
	}
}

// kept returns the attributes of an entry that cp -a keeps.
func kept(fi fs.FileInfo, err error) (*attributes, error) {
	if err != nil {
		return nil, err
	}
	a := attributesOf(fi)
	return &a, nil
}

// fileKept copies one file, and with -a its times and attributes.
func (t *treeCopy) fileKept(ctx context.Context, job fileJob) (int64, error) {
	n, err := t.file(ctx, job)
	if err == nil && job.first != nil {
		job.first.copied.Store(true)
	}
	return n, err
}

// file copies one file, a small one in one piece. A file whose size is 0 or not known may be larger.
func (t *treeCopy) file(ctx context.Context, job fileJob) (int64, error) {
	whole := !t.opts.verify && !t.opts.resume && !(t.opts.archive && job.sparse)
	if whole && job.size > 0 && job.size <= smallSize {
		if n, done, err := t.small(ctx, job); err != nil || done {
			return n, err
		}
	}
	n, err := t.copyJob.file(ctx, t.src, job.from, t.dst, job.to)
	if err == nil && job.kept != nil {
		err = t.keep(ctx, t.dst, job.to, *job.kept)
	}
	return n, err
}

// makeDir makes a directory of the destination if it does not exist.
func (t *treeCopy) makeDir(ctx context.Context, name string) error {
	err := untilCertain(func() error { return t.dst.Mkdir(ctx, name) })
	if err == nil {
		return nil
	}
	if fi, serr := t.dst.Stat(ctx, name); serr == nil && fi.IsDir() {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cp: %s: a file is in the way of the directory", t.dst.Describe(name))
	}
	return err
}

// fail notes a failure, and stops the copy if the connection failed. Files that are abandoned
// because the copy stops do not count as failures.
func (t *treeCopy) fail(ctx context.Context, err error, cancel func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stopped := ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
	if t.lost || stopped && len(messages(err)) == 1 {
		return
	}
	t.failed = append(t.failed, err)
	if gone(err) {
		t.lost = true
		cancel()
	}
}

// report is the error of the copy.
func (t *treeCopy) report(cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failed) == 0 && cause == nil {
		return nil
	}
	shown := t.failed
	if len(shown) > maxReported {
		shown = append(shown[:maxReported:maxReported], fmt.Errorf("and %d more failures", len(t.failed)-maxReported))
	}
	state := ""
	switch {
	case t.lost || cause != nil:
		state = "; the copy was stopped"
	case t.files.Load() > 0:
		state = "; the rest was copied"
	}
	why := ""
	if cause != nil && !t.lost {
		why = cause.Error() + ": "
	}
	summary := fmt.Errorf("cp: %s%d files (%d bytes) copied, %d failed%s", why, t.files.Load(), t.bytes.Load(), len(t.failed), state)
	return errors.Join(append(append([]error(nil), shown...), summary)...)
}
