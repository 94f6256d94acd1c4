package smbshare

import (
	"io/fs"
	"path"
	"time"
)

// Info has the attributes of a file that fs.FileInfo does not have. It is exported as lwio.SMBInfo.
type Info struct {
	Attributes                 uint32
	ID                         uint64
	AllocationSize             int64
	Created, Accessed, Changed time.Time
}

// FileInfo is an entry as fs.FileInfo and fs.DirEntry.
type FileInfo struct {
	name string
	e    Entry
}

// InfoOf describes e, whose path is name.
func InfoOf(name string, e Entry) *FileInfo {
	base := "."
	if name != "" {
		base = path.Base(name)
	}
	return &FileInfo{base, e}
}

// Name returns the last element of the path.
func (i *FileInfo) Name() string { return i.name }

// IsDir reports whether the entry is a directory.
func (i *FileInfo) IsDir() bool { return i.e.IsDir() }

// ModTime returns the time of the last write.
func (i *FileInfo) ModTime() time.Time { return i.e.Modified }

// Type returns the type bits of Mode.
func (i *FileInfo) Type() fs.FileMode { return i.Mode().Type() }

// Info returns i.
func (i *FileInfo) Info() (fs.FileInfo, error) { return i, nil }

func (i *FileInfo) String() string { return fs.FormatFileInfo(i) }

// Size is 0 for a directory.
func (i *FileInfo) Size() int64 {
	if i.IsDir() {
		return 0
	}
	return i.e.Size
}

// Mode has the permissions that the attributes stand for: SMB has no others.
func (i *FileInfo) Mode() fs.FileMode {
	mode := fs.FileMode(0o666)
	if i.IsDir() {
		mode = fs.ModeDir | 0o777
	}
	if i.e.Attributes&attributeReadOnly != 0 {
		mode &^= 0o222
	}
	return mode
}

// Sys returns an *Info.
func (i *FileInfo) Sys() any {
	return &Info{
		Attributes: i.e.Attributes, ID: i.e.ID, AllocationSize: i.e.AllocationSize,
		Created: i.e.Created, Accessed: i.e.Accessed, Changed: i.e.Changed,
	}
}
