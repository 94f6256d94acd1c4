package vfs

import (
	"errors"
	"slices"
	"strings"

	"lwio/internal/ntstatus"
)

// Rename gives the file of the open the path newPath in the same share. With replace, it deletes an
// existing file of that name that is not open. All opens of the file get the new path.
//
// Errors: ACCESS_DENIED without Delete, for the root, for a directory with opens below it, for
// a target that is open, read-only, or not a file, and for a file whose delete is pending;
// SHARING_VIOLATION if another open can delete the directory of newPath, or does not share writes to it;
// OBJECT_NAME_COLLISION; OBJECT_PATH_NOT_FOUND; DELETE_PENDING for a target or a directory
// above it whose delete is pending; the statuses of a bad path. A [LeaseWait] if the holder of a lease may
// delay the close of the file, of the target, or of a file below the directory.
//
// Source: [MS-FSCC 2.4.37] [MS-FSA 2.1.5.15.11]
func (o *Open) Rename(newPath string, replace bool) error { return o.rename(newPath, replace, false) }

// Publish is Rename for a file whose delete is pending by SetDeleteOnClose: the rename cancels the delete. After an
// error the delete is pending as before. A file without a pending delete is renamed.
//
// Errors: as Rename.
func (o *Open) Publish(newPath string, replace bool) error { return o.rename(newPath, replace, true) }

func (o *Open) rename(newPath string, replace, publish bool) error {
	return o.use("rename", func() error {
		to, wantDir, err := parsePath(newPath)
		switch {
		case err != nil:
			return err
		case o.granted&Delete == 0:
			return ntstatus.AccessDenied
		case to == "":
			return because(ntstatus.ObjectNameCollision, "root of the share")
		case wantDir && !o.IsDir():
			return because(ntstatus.ObjectNameInvalid, "a file's name ends in a slash")
		}
		r := renaming{open: o, table: &o.fs.table, to: to, replace: replace, publish: publish}
		err = r.lockedRun()
		r.notices.send()
		return err
	})
}

// renaming is a rename in progress. Precondition: share.ns is held, so no other operation uses the
// names of the share.
type renaming struct {
	open     *Open
	table    *table
	from, to string
	replace  bool
	publish  bool // the rename cancels a delete of the file
	notices  leaseNotices
}

// lockedRun takes share.ns for run.
func (r *renaming) lockedRun() error {
	o := r.open
	o.share.ns.Lock()
	defer o.share.ns.Unlock()
	r.from = o.Path()
	return r.run()
}

func (r *renaming) run() error {
	if r.to == r.from {
		if r.publish {
			r.table.clearDeletion(r.open)
		}
		return nil
	}
	var err error
	if r.notices, err = r.open.caching.rename(); err != nil {
		return err
	}
	if err := r.mayMove(); err != nil {
		return err
	}
	backend := r.open.share.Backend
	target, err := backend.Stat(r.to)
	replaces := err == nil
	switch {
	case replaces:
		if err := r.mayReplace(target); err != nil {
			return err
		}
	case ntstatus.Of(err) != ntstatus.ObjectNameNotFound:
		return err
	}
	if err := r.mayEnter(); err != nil {
		return err
	}
	if err := backend.Rename(r.from, r.to, r.open.nodeID, r.replace); err != nil {
		parent, _ := split(r.to)
		if info, e := backend.Stat(parent); e != nil || !info.Dir {
			return because(ntstatus.ObjectPathNotFound, err.Error())
		}
		return err
	}
	if r.publish {
		r.table.clearDeletion(r.open)
	}
	r.follow()
	r.report(replaces)
	return nil
}

// report reports the rename to watches, and to the leases of the directories. A rename to another directory is a removal and an addition.
// A file changes its attributes and its time of creation too, as on Windows.
//
// Source: [MS-FSA 2.1.5.15.11]
func (r *renaming) report(replaces bool) {
	kind := nameKind(r.open.IsDir())
	from, to := change{kind, NameRenamedOld, r.from}, change{kind, NameRenamedNew, r.to}
	oldDir, _ := split(r.from)
	if newDir, _ := split(r.to); newDir != oldDir {
		from.action, to.action = NameRemoved, NameAdded
	}
	var changes []change
	if replaces {
		changes = append(changes, change{kind, NameRemoved, r.to})
	}
	changes = append(changes, from, to)
	if !r.open.IsDir() {
		changes = append(changes, change{ChangedAttributes | ChangedCreation, NameModified, r.to})
	}
	r.notices = append(r.notices, r.open.share.changed(r.open.changes.parent, changes...)...)
}

// mayMove checks the rules for the renamed file.
func (r *renaming) mayMove() error {
	o := r.open
	below := o.share.pendingDirs.above(r.to) // which may take long
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	switch {
	case r.from == "":
		return because(ntstatus.AccessDenied, "root of the share")
	case o.entry.node.deletion != nil && !(r.publish && o.entry.node.deletion.of(o)):
		return because(ntstatus.AccessDenied, "delete is pending")
	case below:
		return ntstatus.DeletePending
	case !o.IsDir():
		return nil
	case strings.HasPrefix(r.to, r.from+"/"):
		return because(ntstatus.AccessDenied, "into itself")
	}
	for _, n := range r.table.nodes {
		for _, other := range n.opens {
			if other.share == o.share && strings.HasPrefix(other.entry.path, r.from+"/") {
				return r.refuseLocked(n, because(ntstatus.AccessDenied, "a file below the directory is open"))
			}
		}
	}
	return nil
}

// refuseLocked refuses a rename because of the opens of another file, if no lease delays their close: then the error
// is a wait. Precondition: table.mu is held.
func (r *renaming) refuseLocked(n *node, refusal error) error {
	notices, wait := n.leases.rename(nil)
	r.notices = append(r.notices, notices...)
	if wait != nil {
		return wait
	}
	return refusal
}

// mayReplace checks the rules for an existing target.
func (r *renaming) mayReplace(target FileInfo) error {
	r.table.mu.Lock()
	n := r.table.nodes[target.Node()]
	pending := n != nil && n.deletion != nil
	var busy error
	if n != nil && !pending && r.replace {
		busy = r.refuseLocked(n, because(ntstatus.AccessDenied, "target is open"))
	}
	r.table.mu.Unlock()
	switch {
	case pending:
		return ntstatus.DeletePending
	case !r.replace:
		return ntstatus.ObjectNameCollision
	case busy != nil:
		return busy
	case target.Special:
		return because(ntstatus.AccessDenied, "target is neither a file nor a directory")
	case target.Dir:
		return because(ntstatus.AccessDenied, "target is a directory")
	case target.ReadOnly():
		return because(ntstatus.AccessDenied, "target is read-only")
	case r.open.IsDir():
		return because(ntstatus.AccessDenied, "a directory cannot replace a file")
	}
	return nil
}

// mayEnter checks that the opens of the target's directory admit a new entry, as for an open of the
// directory for writing that does not share the right to delete it.
//
// Source: [MS-FSA 2.1.5.15.11]
func (r *renaming) mayEnter() error {
	parent, _ := split(r.to)
	info, err := r.open.share.Backend.Stat(parent)
	if err != nil {
		return nil // the rename itself fails
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if err := r.table.admitLocked(info.Node(), WriteData, ShareRead|ShareWrite); errors.Is(err, ntstatus.SharingViolation) {
		return r.refuseLocked(r.table.nodes[info.Node()], because(ntstatus.SharingViolation, "directory of the target is open"))
	}
	return nil
}

// follow gives opens of the file their new path: the opens of the old name, and the opens of another
// name that the rename has removed. No other goroutine changes names meanwhile.
func (r *renaming) follow() {
	o := r.open
	r.table.mu.Lock()
	opens := slices.Clone(o.entry.node.opens)
	r.table.mu.Unlock()
	for _, other := range opens {
		if other.share != o.share {
			continue
		}
		if path := other.Path(); path != r.from {
			info, err := o.share.Backend.Stat(path)
			if err == nil && info.Node() == o.nodeID {
				continue
			}
		}
		r.table.mu.Lock()
		old := other.entry.path
		other.entry.path = r.to
		r.table.mu.Unlock()
		o.share.watches.move(other, old, r.to)
	}
}
