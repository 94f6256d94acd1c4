package lwio

import (
	"io/fs"
	"time"

	"lwio/internal/client/smbshare"
)

// Info is the Sys of a FileInfo: the attributes of a file in SMB that
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

// fileInfo is an fs.FileInfo and fs.DirEntry with an *Info.
type fileInfo struct{ *smbshare.FileInfo }

// Info returns the entry itself.
func (i fileInfo) Info() (fs.FileInfo, error) { return i, nil }

// Sys returns an *Info.
func (i fileInfo) Sys() any { return (*Info)(i.FileInfo.Sys().(*smbshare.Info)) }

// infoOf is a description by the engine as one of this package.
func infoOf(i fs.FileInfo, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return fileInfo{i.(*smbshare.FileInfo)}, nil
}

// entriesOf is a listing by the engine as one of this package.
func entriesOf(list []fs.DirEntry, err error) ([]fs.DirEntry, error) {
	for i, e := range list {
		list[i] = fileInfo{e.(*smbshare.FileInfo)}
	}
	return list, err
}
