package vfs

import (
	"errors"
	"io"
	"sync"

	"lwio/internal/ntstatus"
)

// listBatch is the number of names of a directory that are held at a time. They are held between the
// calls of ReadDir too, for each of thousands of opens.
const listBatch = 16

// directory enumerates an open directory. Safe for concurrent use.
type directory struct {
	refs    *references // of the open
	handle  Handle
	backend Backend
	table   *table // of pending deletes

	mu      sync.Mutex // held during an enumeration
	begun   bool
	dots    int // returned entries of "." and ".."
	names   []string
	pending *FileInfo // refused by the last yield
	skipped uint64    // entries left out since the last beginning or end
}

// resetLocked begins the enumeration anew.
// Precondition: mu is held.
func (d *directory) resetLocked() {
	d.begun, d.dots, d.names, d.pending, d.skipped = false, 0, nil, nil, 0
}

// read continues the enumeration of the directory, or restarts it. path is the path of the directory.
// At the end of the enumeration, skipped is the number of entries that were left out; before the end
// it is 0.
//
// Errors: NO_MORE_FILES.
func (d *directory) read(path string, restart bool, skip func(), yield func(*FileInfo) bool) (skipped uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if restart {
		d.resetLocked()
	}
	for some := false; ; some = true {
		info, err := d.nextLocked(path, skip)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			skipped, d.skipped = d.skipped, 0
			if some {
				return skipped, nil
			}
			return skipped, ntstatus.NoMoreFiles
		default:
			return 0, err
		}
		if !yield(info) {
			d.pending = info
			return 0, nil
		}
	}
}

// nextLocked returns the next entry that can be served, or io.EOF. The close of the open ends the
// enumeration: a directory can have millions of entries.
//
// Errors: FILE_CLOSED.
func (d *directory) nextLocked(path string, skip func()) (*FileInfo, error) {
	if info := d.pending; info != nil {
		d.pending = nil
		return info, nil
	}
	if d.dots < 2 {
		d.dots++
		return d.dot(path, d.dots)
	}
	for !d.refs.refused() {
		if len(d.names) == 0 {
			var err error
			d.names, err = d.handle.Names(listBatch, !d.begun)
			d.begun = true
			if len(d.names) == 0 {
				return nil, err
			}
		}
		name := d.names[0]
		d.names = d.names[1:]
		info, err := d.entry(path, name)
		if err == nil {
			return &info, nil
		}
		if ntstatus.Of(err) != ntstatus.ObjectNameNotFound { // else deleted meanwhile
			d.skipped++
			skip()
		}
	}
	return nil, ntstatus.FileClosed
}

// dot describes the directory (which 1) or its parent (which 2).
func (d *directory) dot(path string, which int) (*FileInfo, error) {
	var info FileInfo
	var err error
	if which == 1 || path == "" {
		info, err = d.handle.Stat()
	} else {
		parent, _ := split(path)
		info, err = d.backend.Stat(parent)
	}
	info.Name = ".."[:which]
	return &info, err
}

// entry describes an entry.
//
// Errors: OBJECT_NAME_INVALID; ACCESS_DENIED for a special file; the errors of the backend.
func (d *directory) entry(path, name string) (FileInfo, error) {
	if !validName(name) {
		return FileInfo{}, because(ntstatus.ObjectNameInvalid, "SMB has no such name")
	}
	info, err := d.handle.Entry(path, name)
	switch {
	case err != nil:
		return FileInfo{}, err
	case info.Special:
		return FileInfo{}, because(ntstatus.AccessDenied, "neither a file nor a directory")
	}
	info.Name = name
	info.DeletePending = d.table.deletePending(info.Node())
	return info, nil
}

// mayList returns an error unless an open with that access may list the entries. d is nil for an
// open of a file.
func (d *directory) mayList(granted Access) error {
	switch {
	case d == nil:
		return ntstatus.InvalidParameter
	case granted&ListDirectory == 0:
		return ntstatus.AccessDenied
	}
	return nil
}

// ReadDir begins or continues the enumeration of a directory; with restart it begins again. It calls
// yield for each entry, first for "." and "..", until yield returns false. The next call begins with
// the entry for which yield returned false. The FileInfo is valid while yield runs. Entries that SMB
// cannot name, or that are never served, are left out and counted (Stats). Memory does not grow with
// the directory.
//
// Errors: NO_MORE_FILES if there was no entry left to yield; ACCESS_DENIED without
// ListDirectory; INVALID_PARAMETER for a file; FILE_CLOSED once closing has begun, also in the middle
// of the enumeration.
//
// Source: [MS-SMB2 3.3.5.18] [MS-FSA 2.1.5.6.3]
func (o *Open) ReadDir(restart bool, yield func(*FileInfo) bool) error {
	return o.use("list", func() error {
		if err := o.dir.mayList(o.granted); err != nil {
			return err
		}
		path := o.Path()
		skipped, err := o.dir.read(path, restart, func() { o.fs.skipped.Add(1) }, yield)
		if skipped > 0 {
			o.fs.log.Info("vfs: entries that cannot be served were left out of a listing",
				"directory", o.share.Name+"/"+path, "entries", skipped)
		}
		return err
	})
}

// Entry describes one entry of a directory, without an enumeration.
//
// Errors: OBJECT_NAME_NOT_FOUND; OBJECT_NAME_INVALID; ACCESS_DENIED for a special file, and
// without ListDirectory.
func (o *Open) Entry(name string) (info FileInfo, err error) {
	err = o.use("look up in", func() error {
		if err := o.dir.mayList(o.granted); err != nil {
			return err
		}
		info, err = o.dir.entry(o.Path(), name)
		return err
	})
	return info, err
}
