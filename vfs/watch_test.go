package vfs_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// changeLog is the changes that a watch has reported, one string for each operation.
type changeLog struct {
	*vfs.Watch
	mu   sync.Mutex
	list []string
}

// watchOf watches a directory until the end of the test.
func (s *site) watchOf(o *vfs.Open, filter vfs.ChangeFilter, tree bool) *changeLog {
	s.t.Helper()
	l := &changeLog{}
	var err error
	l.Watch, err = o.Watch(filter, tree, func(changes []vfs.Change) {
		l.mu.Lock()
		defer l.mu.Unlock()
		text := ""
		if len(changes) == 0 {
			text = "gone"
		}
		for _, c := range changes {
			text += fmt.Sprintf("%d%s ", c.Action, c.Name)
		}
		l.list = append(l.list, text)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.Stop)
	return l
}

// want checks the operations since the last call.
func (l *changeLog) want(t *testing.T, what string, ops ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.list, ops) {
		t.Errorf("%s: %q, want %q", what, l.list, ops)
	}
	l.list = nil
}

// folder opens or creates a directory, with the right to list it and others.
func (s *site) folder(path string, more ...vfs.Access) *vfs.Open {
	s.t.Helper()
	a := vfs.ListDirectory
	for _, m := range more {
		a |= m
	}
	return s.mustOpen(path, access(a), options(vfs.DirectoryFile), disposition(vfs.OpenIf))
}

// allChanges selects every change.
const allChanges = ^vfs.ChangeFilter(0)

// Each operation on a name below a watched directory is reported to the watches of the directory,
// and to the watches of trees above it. A file that is written is reported twice: at the first write,
// and when the writes are settled.
//
// Source: [MS-FSA 2.1.5]
func TestWatchReportsEachOperation(t *testing.T) {
	s := newSite(t)
	s.put("d/e/")
	tree, flat := s.watchOf(s.folder(""), allChanges, true), s.watchOf(s.folder(""), allChanges, false)
	names := s.watchOf(s.folder("d"), vfs.ChangedFileName, false)
	var f *vfs.Open
	write := func() error {
		var err error
		held(t, f, func() { _, err = f.WriteAt([]byte("x"), 0) })
		return err
	}
	for _, x := range []struct {
		what              string
		do                func() error
		tree, flat, names []string
	}{
		{"create", func() (err error) { f, err = s.open("d/f", disposition(vfs.Create)); return err }, []string{"1d/f "}, nil, []string{"1f "}},
		{"write", write, []string{"3d/f "}, nil, nil},
		{"write again", write, nil, nil, nil},
		{"sync", func() error { return f.Sync() }, []string{"3d/f "}, nil, nil},
		{"sync without a write", func() error { return f.Sync() }, nil, nil, nil},
		{"truncate", func() error { return f.Truncate(1) }, []string{"3d/f "}, nil, nil},
		{"times", func() error { return f.SetTimes(vfs.Times{Modified: time.Unix(1, 0)}) }, []string{"3d/f "}, nil, nil},
		{"no times", func() error { return f.SetTimes(vfs.Times{}) }, nil, nil, nil},
		{"attributes", func() error { return f.SetAttributes(vfs.AttrHidden) }, []string{"3d/f "}, nil, nil},
		{"no attributes", func() error { return f.SetAttributes(0) }, nil, nil, nil},
		{"rename", func() error { return f.Rename("d/g", false) }, []string{"4d/f 5d/g 3d/g "}, nil, []string{"4f 5g "}},
		{"rename to another directory", func() error { return f.Rename("d/e/h", false) }, []string{"2d/g 1d/e/h 3d/e/h "}, nil, []string{"2g "}},
		{"rename to the top", func() error { return f.Rename("i", false) }, []string{"2d/e/h 1i 3i "}, []string{"1i 3i "}, nil},
		{"last write", write, []string{"3i "}, []string{"3i "}, nil},
		{"close", func() error { return f.Close() }, []string{"3i "}, []string{"3i "}, nil},
		{"overwrite", func() (err error) { f, err = s.open("i", disposition(vfs.Overwrite)); return err }, []string{"3i "}, []string{"3i "}, nil},
		{"pending delete", func() error { return f.SetDeleteOnClose(true) }, nil, nil, nil},
		{"delete", func() error { return f.Close() }, []string{"2i "}, []string{"2i "}, nil},
		{"new directory", func() error { return s.folder("n").Close() }, []string{"1n "}, []string{"1n "}, nil},
	} {
		if err := x.do(); err != nil {
			t.Fatalf("%s: %v", x.what, err)
		}
		tree.want(t, x.what, x.tree...)
		flat.want(t, x.what, x.flat...)
		names.want(t, x.what, x.names...)
	}
}

// A watch reports the changes that its filter selects, and those before it was stopped.
func TestWatchReportsSelectedChanges(t *testing.T) {
	s := newSite(t)
	s.put("f")
	f := s.mustOpen("f")
	for _, x := range []struct {
		filter vfs.ChangeFilter
		do     func() error
		want   bool
	}{
		{vfs.ChangedAttributes, func() error { return f.SetAttributes(vfs.AttrArchive) }, true},
		{allChanges &^ vfs.ChangedAttributes, func() error { return f.SetAttributes(vfs.AttrArchive) }, false},
		{vfs.ChangedLastAccess, func() error { return f.SetTimes(vfs.Times{Accessed: time.Unix(1, 0)}) }, true},
		{vfs.ChangedLastWrite, func() error { return f.SetTimes(vfs.Times{Accessed: time.Unix(1, 0)}) }, false},
		{vfs.ChangedSize, func() error { return f.Truncate(3) }, true},
		{vfs.ChangedDirName, func() error { return f.Rename("g", false) }, false},
		{vfs.ChangedFileName, func() error { return s.folder("d1").Close() }, false},
		{vfs.ChangedDirName, func() error { return s.folder("d2").Close() }, true},
	} {
		l := s.watchOf(s.folder(""), x.filter, false)
		if err := x.do(); err != nil {
			t.Fatal(err)
		}
		if got := len(l.list) == 1; got != x.want {
			t.Errorf("filter %#x: %q", x.filter, l.list)
		}
		l.Stop()
		l.list = nil
		closed(t, s.mustOpen(fmt.Sprintf("after%x", x.filter), disposition(vfs.OpenIf)))
		l.want(t, "after stop")
	}
}

// A watch follows its directory when that is renamed.
func TestWatchFollowsRenamedDirectory(t *testing.T) {
	s := newSite(t)
	d := s.folder("d", vfs.Delete)
	l, other := s.watchOf(d, allChanges, false), s.watchOf(d, vfs.ChangedFileName, true)
	if err := d.Rename("e", false); err != nil {
		t.Fatal(err)
	}
	closed(t, s.mustOpen("e/f", disposition(vfs.Create)), s.folder("d"))
	l.want(t, "create", "1f ")
	other.want(t, "create", "1f ")
}

// The pending delete of a directory is reported to its watches, and a new watch is refused.
func TestWatchEndsWithPendingDelete(t *testing.T) {
	s := newSite(t)
	d := s.folder("d")
	l, parent := s.watchOf(d, allChanges, false), s.watchOf(s.folder(""), allChanges, true)
	doomed := s.folder("d", vfs.Delete)
	if err := doomed.SetDeleteOnClose(true); err != nil {
		t.Fatal(err)
	}
	l.want(t, "pending delete", "gone")
	parent.want(t, "pending delete")
	_, err := d.Watch(allChanges, true, func([]vfs.Change) {})
	wantStatus(t, "watch", err, ntstatus.DeletePending)
	closed(t, doomed, d)
	parent.want(t, "delete", "2d ")
}

func TestWatchNeedsListableDirectory(t *testing.T) {
	s := newSite(t)
	s.put("f")
	_, err := s.mustOpen("f").Watch(allChanges, false, nil)
	wantStatus(t, "file", err, ntstatus.InvalidParameter)
	d := s.mustOpen("", access(vfs.ReadAttributes), options(vfs.DirectoryFile))
	_, err = d.Watch(allChanges, false, nil)
	wantStatus(t, "without the right", err, ntstatus.AccessDenied)
	closed(t, d)
	_, err = d.Watch(allChanges, false, nil)
	wantStatus(t, "closed", err, ntstatus.FileClosed)
}

// A rename that replaces a file reports the removal of the file.
func TestWatchReportsReplacedFile(t *testing.T) {
	s := newSite(t)
	s.put("a", "b")
	l := s.watchOf(s.folder(""), vfs.ChangedFileName, false)
	if err := s.mustOpen("a").Rename("b", true); err != nil {
		t.Fatal(err)
	}
	l.want(t, "rename", "2b 4a 5b ")
}

// A paused watch reports nothing but the pending delete of its directory, and goes on after Resume.
func TestPausedWatchReportsNothing(t *testing.T) {
	s := newSite(t)
	s.put("d/", "d/f")
	d, f := s.folder("d"), s.mustOpen("d/f", access(vfs.Delete))
	l, other := s.watchOf(d, allChanges, true), s.watchOf(d, allChanges, true)
	move := func(to string) {
		t.Helper()
		wantStatus(t, to, f.Rename(to, false), ntstatus.Success)
	}
	l.Pause()
	move("d/g")
	l.want(t, "paused")
	other.want(t, "not paused", "4f 5g 3g ")
	l.Resume()
	move("d/h")
	l.want(t, "resumed", "4g 5h 3h ")
	l.Pause()
	move("i")
	wantStatus(t, "delete", s.folder("d", vfs.Delete).SetDeleteOnClose(true), ntstatus.Success)
	l.want(t, "the pending delete", "gone")
}
