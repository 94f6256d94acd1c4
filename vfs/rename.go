package vfs

import (
	"strings"

	"lwio/internal/ntstatus"
)

// Rename gives the file that o opened the path newPath in the same share. With
// replace a file of that name is deleted, if nobody has it open. All opens of
// the file follow.
//
// Errors: ACCESS_DENIED without Delete, for the root, for a directory with opens
// below it, for a target that is open, read-only, or not a file, and for a file
// whose delete is pending; OBJECT_NAME_COLLISION; OBJECT_PATH_NOT_FOUND;
// DELETE_PENDING for a target or a directory above it that is about to go; the
// statuses of a bad path.
//
// Source: [MS-FSCC 2.4.37] [MS-FSA 2.1.5.15.11]
func (o *Open) Rename(newPath string, replace bool) error {
	return o.use("rename", func() error {
		to, wantDir, err := parsePath(newPath)
		switch {
		case err != nil:
			return err
		case o.granted&Delete == 0:
			return ntstatus.AccessDenied
		case to == "":
			return because(ntstatus.ObjectNameCollision, "root of the share")
		case wantDir && !o.dir:
			return because(ntstatus.ObjectNameInvalid, "a file's name ends in a slash")
		}
		o.share.ns.Lock()
		defer o.share.ns.Unlock()
		return o.renameTo(to, replace)
	})
}

// renameTo does it with the name space of the share to itself.
func (o *Open) renameTo(to string, replace bool) error {
	from := o.Path()
	if to == from {
		return nil
	}
	if err := o.mayMove(from, to); err != nil {
		return err
	}
	target, err := o.share.Backend.Stat(to)
	switch {
	case err == nil:
		if err := o.mayReplace(target, replace); err != nil {
			return err
		}
	case ntstatus.Of(err) != ntstatus.ObjectNameNotFound:
		return err
	}
	if err := o.share.Backend.Rename(from, to, o.nodeID, replace); err != nil {
		parent, _ := split(to)
		if info, e := o.share.Backend.Stat(parent); e != nil || !info.Dir {
			return because(ntstatus.ObjectPathNotFound, err.Error())
		}
		return err
	}
	o.follow(from, to)
	return nil
}

// mayMove applies the rules for the file that moves.
func (o *Open) mayMove(from, to string) error {
	f := o.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case from == "":
		return because(ntstatus.AccessDenied, "root of the share")
	case o.node.doom != nil:
		return because(ntstatus.AccessDenied, "delete is pending")
	case o.share.doomedAboveLocked(to):
		return ntstatus.DeletePending
	case !o.dir:
		return nil
	case strings.HasPrefix(to, from+"/"):
		return because(ntstatus.AccessDenied, "into itself")
	}
	for _, n := range f.nodes {
		for _, other := range n.opens {
			if other.share == o.share && strings.HasPrefix(other.path, from+"/") {
				return because(ntstatus.AccessDenied, "something below is open")
			}
		}
	}
	return nil
}

// mayReplace applies the rules for the file in the way.
func (o *Open) mayReplace(target FileInfo, replace bool) error {
	f := o.fs
	f.mu.Lock()
	n := f.nodes[target.Node()]
	pending := n != nil && n.doom != nil
	f.mu.Unlock()
	switch {
	case pending:
		return ntstatus.DeletePending
	case !replace:
		return ntstatus.ObjectNameCollision
	case n != nil:
		return because(ntstatus.AccessDenied, "target is open")
	case target.Special:
		return because(ntstatus.AccessDenied, "target is neither a file nor a directory")
	case target.Dir:
		return because(ntstatus.AccessDenied, "target is a directory")
	case target.ReadOnly():
		return because(ntstatus.AccessDenied, "target is read-only")
	case o.dir:
		return because(ntstatus.AccessDenied, "a directory cannot replace a file")
	}
	return nil
}

// follow gives the opens of the file their new path: those of the old name, and
// those whose own name the rename has taken away. Nobody else changes names.
func (o *Open) follow(from, to string) {
	f := o.fs
	f.mu.Lock()
	opens := append([]*Open(nil), o.node.opens...)
	f.mu.Unlock()
	for _, other := range opens {
		path := other.Path()
		if other.share != o.share {
			continue
		}
		if path != from {
			info, err := o.share.Backend.Stat(path)
			if err == nil && info.Node() == o.nodeID {
				continue
			}
		}
		f.mu.Lock()
		other.path = to
		f.mu.Unlock()
	}
}
