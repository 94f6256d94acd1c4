package vfs

import (
	"errors"
	"io"
	"sync"

	"lwio/internal/ntstatus"
)

// listBatch is how many names of a directory are held at a time.
const listBatch = 256

// listing is where the enumeration of a directory stands.
type listing struct {
	mu      sync.Mutex
	begun   bool
	dots    int // of "." and "..", those that are through
	names   []string
	pending *FileInfo // refused by the last yield
	skipped uint64
}

func (l *listing) reset() { l.begun, l.dots, l.names, l.pending, l.skipped = false, 0, nil, nil, 0 }

// ReadDir goes on with the enumeration of a directory, or begins it, and again
// with restart. It calls yield for one entry after the other, "." and ".."
// first, until yield returns false: that entry comes again next time. The
// FileInfo is yield's only while it runs. Entries that SMB cannot name, or that
// are never served, are left out and counted (Stats). Memory does not grow with
// the directory.
//
// Errors: NO_MORE_FILES if there was no entry left to yield; ACCESS_DENIED
// without ListDirectory; INVALID_PARAMETER for a file.
//
// Source: [MS-SMB2 3.3.5.18] [MS-FSA 2.1.5.6.3]
func (o *Open) ReadDir(restart bool, yield func(*FileInfo) bool) error {
	return o.use("list", func() error {
		switch {
		case !o.dir:
			return ntstatus.InvalidParameter
		case o.granted&ListDirectory == 0:
			return ntstatus.AccessDenied
		}
		l := &o.list
		l.mu.Lock()
		defer l.mu.Unlock()
		if restart {
			l.reset()
		}
		for some := false; ; some = true {
			info, err := o.nextEntry()
			switch {
			case err == nil:
			case errors.Is(err, io.EOF) && some:
				return nil
			case errors.Is(err, io.EOF):
				return ntstatus.NoMoreFiles
			default:
				return err
			}
			if !yield(info) {
				l.pending = info
				return nil
			}
		}
	})
}

// nextEntry returns the next entry that can be served, or io.EOF.
func (o *Open) nextEntry() (*FileInfo, error) {
	l := &o.list
	if info := l.pending; info != nil {
		l.pending = nil
		return info, nil
	}
	dir := o.Path()
	if l.dots < 2 {
		l.dots++
		return o.dot(dir, l.dots)
	}
	for {
		if len(l.names) == 0 {
			var err error
			l.names, err = o.handle.Names(listBatch, !l.begun)
			l.begun = true
			if len(l.names) == 0 {
				o.listed(dir, err)
				return nil, err
			}
		}
		name := l.names[0]
		l.names = l.names[1:]
		info, err := o.entry(dir, name)
		if err == nil {
			return &info, nil
		}
		if ntstatus.Of(err) != ntstatus.ObjectNameNotFound { // deleted meanwhile
			l.skipped++
			o.fs.skipped.Add(1)
		}
	}
}

// listed says in the log what an enumeration left out.
func (o *Open) listed(dir string, err error) {
	if n := o.list.skipped; n > 0 && errors.Is(err, io.EOF) {
		o.fs.log.Info("vfs: entries that cannot be served were left out of a listing",
			"directory", o.share.Name+"/"+dir, "entries", n)
		o.list.skipped = 0
	}
}

// dot describes the directory (which 1) or the one above (which 2).
func (o *Open) dot(dir string, which int) (*FileInfo, error) {
	var info FileInfo
	var err error
	if which == 1 || dir == "" {
		info, err = o.handle.Stat()
	} else {
		parent, _ := split(dir)
		info, err = o.share.Backend.Stat(parent)
	}
	info.Name = ".."[:which]
	return &info, err
}

// Entry describes one entry of a directory, without an enumeration.
//
// Errors: OBJECT_NAME_NOT_FOUND; OBJECT_NAME_INVALID; ACCESS_DENIED for what
// cannot be served, and without ListDirectory.
func (o *Open) Entry(name string) (info FileInfo, err error) {
	err = o.use("look up in", func() error {
		switch {
		case !o.dir:
			return ntstatus.InvalidParameter
		case o.granted&ListDirectory == 0:
			return ntstatus.AccessDenied
		}
		info, err = o.entry(o.Path(), name)
		return err
	})
	return info, err
}

func (o *Open) entry(dir, name string) (FileInfo, error) {
	if !validName(name) {
		return FileInfo{}, because(ntstatus.ObjectNameInvalid, "SMB has no such name")
	}
	info, err := o.handle.Entry(dir, name)
	switch {
	case err != nil:
		return FileInfo{}, err
	case info.Special:
		return FileInfo{}, because(ntstatus.AccessDenied, "neither a file nor a directory")
	}
	info.Name = name
	o.fs.mu.Lock()
	n := o.fs.nodes[info.Node()]
	info.DeletePending = n != nil && n.doom != nil
	o.fs.mu.Unlock()
	return info, nil
}
