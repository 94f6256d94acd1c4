package vfs

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lwio/internal/ntstatus"
)

// ChangeFilter is a set of kinds of changes.
//
// Source: [MS-SMB2 2.2.35]
type ChangeFilter uint32

// The kinds of changes. A backend has no others.
const (
	ChangedFileName   ChangeFilter = 0x00000001
	ChangedDirName    ChangeFilter = 0x00000002
	ChangedAttributes ChangeFilter = 0x00000004
	ChangedSize       ChangeFilter = 0x00000008
	ChangedLastWrite  ChangeFilter = 0x00000010
	ChangedLastAccess ChangeFilter = 0x00000020
	ChangedCreation   ChangeFilter = 0x00000040
)

// ChangeAction is the effect of a change on a name.
//
// Source: [MS-FSCC 2.7.1]
type ChangeAction uint32

// The actions.
const (
	NameAdded      ChangeAction = 1
	NameRemoved    ChangeAction = 2
	NameModified   ChangeAction = 3
	NameRenamedOld ChangeAction = 4
	NameRenamedNew ChangeAction = 5
)

// Change is a change of a file or directory below a watched directory.
type Change struct {
	Action ChangeAction
	// Name is the path of the file, relative to the watched directory.
	Name string
}

// Watch calls changed for each operation that changes an entry of the directory in a way that the
// filter selects; with tree also for changes in all directories below it. The list has all changes
// of the operation, in order, and is valid during the call. An empty list says that the delete of
// the directory became pending. Operations of all opens of the share are reported, see the
// exceptions to NT in the package comment. Calls are made one after another; changed must not wait
// and must not call this package.
//
// The caller stops the watch before the open is closed, or in a revoke hook.
//
// Errors: INVALID_PARAMETER for a file, ACCESS_DENIED without ListDirectory, DELETE_PENDING.
//
// Source: [MS-FSA 2.1.5.11]
func (o *Open) Watch(filter ChangeFilter, tree bool, changed func([]Change)) (w *Watch, err error) {
	err = o.use("watch", func() error {
		if err := o.dir.mayList(o.granted); err != nil {
			return err
		}
		o.share.ns.RLock() // no rename changes the path
		defer o.share.ns.RUnlock()
		all := &o.share.watches
		x := &Watch{all: all, open: o, dir: o.Path(), filter: filter, tree: tree, changed: changed}
		all.add(x)
		if o.fs.table.deletePending(o.nodeID) {
			all.remove(x)
			return ntstatus.DeletePending
		}
		w = x
		return nil
	})
	return w, err
}

// Watch is the report of the changes of a directory to one open. Safe for concurrent use.
type Watch struct {
	all    *watches
	paused atomic.Bool

	// watches.mu guards dir and due.
	open    *Open
	dir     string // path
	filter  ChangeFilter
	tree    bool
	changed func([]Change)
	due     []Change // of the operation that is being reported
}

// Stop ends the watch. The function of the watch is not called after Stop has returned.
func (w *Watch) Stop() { w.all.remove(w) }

// Pause leaves out the changes until Resume, except that the delete of the directory becomes pending. A client can have
// thousands of watches that it never asks for, and a paused watch costs the operations of others next to nothing. The
// function of the watch may call Pause and Resume.
func (w *Watch) Pause() { w.paused.Store(true) }

// Resume ends Pause. Changes by operations that begin after Resume are reported.
func (w *Watch) Resume() { w.paused.Store(false) }

// watches are the watches of a share. Safe for concurrent use.
type watches struct {
	n atomic.Int64

	mu    sync.Mutex // held while changed functions run
	byDir map[string][]*Watch
}

// any reports whether there is a watch.
func (s *watches) any() bool { return s.n.Load() != 0 }

func (s *watches) add(w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(w)
	s.n.Add(1)
}

func (s *watches) addLocked(w *Watch) {
	if s.byDir == nil {
		s.byDir = make(map[string][]*Watch)
	}
	s.byDir[w.dir] = append(s.byDir[w.dir], w)
}

// remove removes a watch. A second call does nothing.
func (s *watches) remove(w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removeLocked(w) {
		s.n.Add(-1)
	}
}

func (s *watches) removeLocked(w *Watch) bool {
	list := s.byDir[w.dir]
	i := slices.Index(list, w)
	switch {
	case i < 0:
		return false
	case len(list) == 1:
		delete(s.byDir, w.dir)
	default:
		s.byDir[w.dir] = slices.Delete(list, i, i+1)
	}
	return true
}

// move gives the watches of an open the new path of its directory.
func (s *watches) move(o *Open, from, to string) {
	if !s.any() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range slices.Clone(s.byDir[from]) {
		if w.open == o {
			s.removeLocked(w)
			w.dir = to
			s.addLocked(w)
		}
	}
}

// deleted tells the watches of an open that the delete of its directory is pending. path is the
// path of the open.
func (s *watches) deleted(o *Open, path string) {
	if !s.any() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.byDir[path] {
		if w.open == o {
			w.changed(nil)
		}
	}
}

// change is a change of the file path.
type change struct {
	kind   ChangeFilter
	action ChangeAction
	path   string
}

// report reports the changes of one operation.
func (s *watches) report(changes ...change) {
	if !s.any() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var touched []*Watch
	for _, c := range changes {
		dir, _ := split(c.path)
		for parent := true; c.path != ""; parent = false {
			for _, w := range s.byDir[dir] {
				if w.paused.Load() || w.filter&c.kind == 0 || !parent && !w.tree {
					continue
				}
				if len(w.due) == 0 {
					touched = append(touched, w)
				}
				w.due = append(w.due, Change{c.action, strings.TrimPrefix(c.path[len(dir):], "/")})
			}
			if dir == "" {
				break
			}
			dir, _ = split(dir)
		}
	}
	for _, w := range touched {
		w.changed(w.due)
		w.due = nil
	}
}

// nameKind is the kind of a change of a name.
func nameKind(dir bool) ChangeFilter {
	if dir {
		return ChangedDirName
	}
	return ChangedFileName
}
