package lwio

import (
	"io/fs"
	"path"
	"time"
)

// Info is what Sys of a FileInfo returns: what SMB says about a file and
// io/fs has no place for.
type Info struct {
	// Attributes are the file attributes of [MS-FSCC 2.6].
	Attributes uint32
	// ID identifies the file at the server, 0 if it was not asked for.
	ID uint64
	// Allocated is the space that the file takes, in bytes.
	Allocated int64
	// Created, Accessed and Changed are times; Changed is that of the metadata.
	Created, Accessed, Changed time.Time
}

// fileInfo is an entry as fs.FileInfo and fs.DirEntry.
type fileInfo struct {
	name string
	e    entry
}

// infoOf describes e, whose path is name.
func infoOf(name string, e entry) *fileInfo {
	base := "."
	if name != "" {
		base = path.Base(name)
	}
	return &fileInfo{base, e}
}

func (i *fileInfo) Name() string               { return i.name }
func (i *fileInfo) IsDir() bool                { return i.e.isDir() }
func (i *fileInfo) ModTime() time.Time         { return i.e.modified }
func (i *fileInfo) Type() fs.FileMode          { return i.Mode().Type() }
func (i *fileInfo) Info() (fs.FileInfo, error) { return i, nil }
func (i *fileInfo) String() string             { return fs.FormatFileInfo(i) }

// Size is 0 for a directory, whatever the server says.
func (i *fileInfo) Size() int64 {
	if i.IsDir() {
		return 0
	}
	return i.e.size
}

// Mode has the permissions that the attributes stand for: SMB has no others.
func (i *fileInfo) Mode() fs.FileMode {
	mode := fs.FileMode(0o666)
	if i.IsDir() {
		mode = fs.ModeDir | 0o777
	}
	if i.e.attributes&attributeReadOnly != 0 {
		mode &^= 0o222
	}
	return mode
}

func (i *fileInfo) Sys() any {
	return &Info{
		Attributes: i.e.attributes, ID: i.e.id, Allocated: i.e.allocated,
		Created: i.e.created, Accessed: i.e.accessed, Changed: i.e.changed,
	}
}
