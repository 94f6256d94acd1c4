package lwio

import (
	"io/fs"
	"time"

	"lwio/internal/client/smbshare"
)

// SMBInfo is the result of the Sys method of an fs.FileInfo of this package. It has the
// attributes of SMB that fs.FileInfo lacks.
type SMBInfo struct {
	// Attributes are the file attributes of [MS-FSCC 2.6].
	Attributes uint32
	// ID identifies the file at the server. It is 0 if the client did not ask for it.
	ID uint64
	// AllocationSize is the space that the file occupies, in bytes.
	AllocationSize int64
	// Created, Accessed and Changed are the times of creation, of the last access, and of the
	// last change of the metadata.
	Created, Accessed, Changed time.Time
}

// Space is the size of a file system, in bytes. It has:
//
//   - Total, all of it.
//   - Free, the free part.
//   - Available, the free part that the user may take.
//   - BlockSize, the unit of allocation.
type Space = smbshare.Space

// Attributes are the properties of a file that [Client.WriteFileWith] gives it.
type Attributes struct {
	// Accessed and Modified are the times of the last access and the last write, in units of 100 ns; a finer part is
	// cut off. The server sets a time that is zero.
	Accessed, Modified time.Time
	// ReadOnly takes away the permission to write to the file.
	ReadOnly bool
}

// basic returns the attributes that are set.
func (a Attributes) basic() smbshare.Basic {
	b := smbshare.Basic{Accessed: a.Accessed, Modified: a.Modified}
	if a.ReadOnly {
		b.Attributes = smbshare.Writability(false).Attributes
	}
	return b
}

// fileInfo is an fs.FileInfo and fs.DirEntry with an *SMBInfo.
type fileInfo struct{ *smbshare.FileInfo }

// Info returns the entry itself.
func (i fileInfo) Info() (fs.FileInfo, error) { return i, nil }

// Sys returns an *SMBInfo.
func (i fileInfo) Sys() any { return (*SMBInfo)(i.FileInfo.Sys().(*smbshare.Info)) }

// infoOf returns a description by the engine as one of this package.
func infoOf(i fs.FileInfo, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return fileInfo{i.(*smbshare.FileInfo)}, nil
}

// entriesOf returns a listing by the engine as one of this package.
func entriesOf(list []fs.DirEntry, err error) ([]fs.DirEntry, error) {
	for i, e := range list {
		list[i] = fileInfo{e.(*smbshare.FileInfo)}
	}
	return list, err
}
