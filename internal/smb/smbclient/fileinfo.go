package smbclient

import (
	"math"
	"time"

	"lwio/internal/smb/smbwire"
)

// FileInfo describes a file or directory.
type FileInfo struct {
	// Name is the last element of the path.
	Name string
	// Size and AllocationSize are in bytes.
	Size, AllocationSize int64
	// Attributes are the bits of [MS-FSCC 2.6].
	Attributes uint32
	// ID identifies the file within its share; 0 if the server gives none.
	ID uint64
	// Links and DeletePending are set by File.Stat only.
	Links         uint32
	DeletePending bool
	// Created, Accessed, Modified and Changed are zero if the server gives none.
	Created, Accessed, Modified, Changed time.Time
}

// IsDir reports whether the object is a directory.
func (i FileInfo) IsDir() bool { return i.Attributes&smbwire.AttributeDirectory != 0 }

// ReadOnly reports whether the attributes forbid changes and removal.
func (i FileInfo) ReadOnly() bool { return i.Attributes&attributeReadOnly != 0 }

const attributeReadOnly = 0x00000001

// setTimes sets the times from their wire form.
func (i *FileInfo) setTimes(t *smbwire.FileTimes) {
	i.Created, i.Accessed = t.CreationTime.Time(), t.LastAccessTime.Time()
	i.Modified, i.Changed = t.LastWriteTime.Time(), t.ChangeTime.Time()
}

// size limits a size on the wire to the largest int64. No real file is larger.
func size(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// createdInfo returns the description in the response to a CREATE.
func createdInfo(name string, r *smbwire.CreateResponse) FileInfo {
	i := FileInfo{Name: name, Size: size(r.EndOfFile), AllocationSize: size(r.AllocationSize), Attributes: r.FileAttributes}
	i.setTimes(&r.FileTimes)
	for _, x := range r.Contexts {
		if x.Name == smbwire.CreateContextQueryOnDiskID {
			if id, err := smbwire.DecodeOnDiskID(x.Data); err == nil {
				i.ID = id.FileID
			}
		}
	}
	return i
}
