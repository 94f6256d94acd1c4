package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"lwio"
)

// treeListing lists a directory and the directories below it, treeWorkers at a time.
type treeListing struct {
	c     *lwio.Client
	spare chan struct{} // has a token for each goroutine that may be started
	wg    sync.WaitGroup
	lost  atomic.Bool // the server is lost or does not respond: nothing is begun any more
}

// listedDir is one directory. The other fields are valid once listed is closed.
type listedDir struct {
	name   string     // in the share
	id     uint64     // of the directory at the server; 0 if not known
	parent *listedDir // nil for the first
	listed chan struct{}
	infos  []fs.FileInfo // sorted by name
	below  []*listedDir  // in the same order
	err    error
}

// newListedDir returns a directory that is not listed.
func newListedDir(name string, fi fs.FileInfo, parent *listedDir) *listedDir {
	return &listedDir{name: name, id: inodeOf(fi).key[1], parent: parent, listed: make(chan struct{})}
}

// errLoop is the error of a directory that holds itself.
var errLoop = errors.New("not listed: a link to a directory above it")

// loops reports whether a directory is one of those above it.
func (d *listedDir) loops() bool {
	for p := d.parent; p != nil && d.id != 0; p = p.parent {
		if p.id == d.id {
			return true
		}
	}
	return false
}

// run lists a directory and then those below it.
func (l *treeListing) run(ctx context.Context, d *listedDir) {
	if d.loops() {
		d.err = &fs.PathError{Op: "ls", Path: d.name, Err: errLoop}
	}
	if d.err != nil || l.lost.Load() {
		close(d.listed)
		return
	}
	entries, err := l.c.ReadDir(ctx, d.name)
	if d.err = err; gone(err) {
		l.lost.Store(true)
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			d.err = errors.Join(d.err, err)
			continue
		}
		d.infos = append(d.infos, fi)
		if fi.IsDir() {
			d.below = append(d.below, newListedDir(path.Join(d.name, fi.Name()), fi, d))
		}
	}
	close(d.listed)
	for _, b := range d.below {
		select {
		case l.spare <- struct{}{}:
			l.wg.Go(func() { defer func() { <-l.spare }(); l.run(ctx, b) })
		default:
			l.run(ctx, b)
		}
	}
}

// each calls do for a directory and those below it, in the order of ls -R, as they are listed. It returns their errors.
func (d *listedDir) each(do func(d *listedDir) error) error {
	<-d.listed
	errs := []error{do(d), d.err}
	for _, b := range d.below {
		errs = append(errs, b.each(do))
	}
	return errors.Join(errs...)
}

// listAll prints a directory and everything below it, each directory behind a line with its name; in JSON as one list,
// whose names are relative to the directory.
func (a *app) listAll(ctx context.Context, t remoteTree, long, asJSON bool) error {
	fi, err := t.c.Stat(ctx, t.t.Path)
	switch {
	case err != nil:
		return err
	case !fi.IsDir():
		return printList(a.stdout, []fs.FileInfo{fi}, long, asJSON)
	}
	root := newListedDir(strings.TrimPrefix(path.Clean(t.t.Path), "."), fi, nil)
	l := &treeListing{c: t.c, spare: make(chan struct{}, treeWorkers-1)}
	l.wg.Go(func() { l.run(ctx, root) })
	defer l.wg.Wait()
	if asJSON {
		all := []fileJSON{}
		err := root.each(func(d *listedDir) error {
			for _, fi := range d.infos {
				j := toJSON(fi)
				j.Name = strings.TrimPrefix(path.Join(d.name, j.Name)[len(root.name):], "/")
				all = append(all, j)
			}
			return nil
		})
		return errors.Join(writeJSON(a.stdout, all), err)
	}
	first := true
	return root.each(func(d *listedDir) error {
		if d.infos == nil && d.err != nil {
			return nil
		}
		if !first {
			fmt.Fprintln(a.stdout)
		}
		first = false
		fmt.Fprintf(a.stdout, "%s:\n", printable(t.Describe(d.name)))
		return printList(a.stdout, d.infos, long, false)
	})
}
