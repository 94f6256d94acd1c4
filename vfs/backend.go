package vfs

import (
	"os"
	"time"
)

// Backend is a tree of files. Paths are slash-separated and relative, have
// passed this package's rules, and "" is the root. All methods are safe for
// concurrent use. The table of opens calls them; nobody else needs to.
//
// Errors wrap Go's errors (fs.ErrNotExist, an errno, ...) or an NT status;
// a path that leads outside is an access denied.
type Backend interface {
	// Stat describes what path names, following links inside the tree.
	Stat(path string) (FileInfo, error)
	// Open opens a regular file or, with how.Dir, a directory that exists. It
	// never waits for another process, whatever the name turns out to be.
	Open(path string, how HandleMode) (Handle, error)
	// Create creates a regular file, which must not exist, and opens it.
	Create(path string, how HandleMode, readOnly bool) (Handle, error)
	// Mkdir creates a directory.
	Mkdir(path string) error
	// Remove deletes the name path if it still stands for the file node. The
	// error of a directory that has entries is ENOTEMPTY or DIRECTORY_NOT_EMPTY.
	Remove(path string, node NodeID, dir bool) error
	// Link reports whether the name path itself is a link, to wherever.
	Link(path string) bool
	// Rename gives from, if it still stands for node, the name to. With replace
	// a file that is there goes; without, the error is fs.ErrExist.
	Rename(from, to string, node NodeID, replace bool) error
	// Removable reports whether the server may delete or rename path.
	Removable(path string) error
	// Volume describes the file system below.
	Volume() (VolumeInfo, error)
	// Close releases the backend; handles live on. A second Close does nothing.
	Close() error
}

// HandleMode is the use of a handle.
type HandleMode struct {
	Read, Write bool
	// Append: every write goes to the end of the file, whatever its offset.
	Append bool
	// Dir: a directory, for enumeration.
	Dir bool
}

// Handle is an open file or directory of a backend. ReadAt, ReadCached, WriteAt,
// WriteVec, Sync, Stat and the like may run concurrently; Names may not. Close is called
// once, after everything else.
type Handle interface {
	// ReadAt reads up to len(p) bytes and returns fewer, without an error, only
	// at the end of the file. It does not allocate.
	ReadAt(p []byte, off int64) (int, error)
	// ReadCached is ReadAt for what can be read without waiting; ok false says
	// that more than the n bytes would have to be waited for.
	ReadCached(p []byte, off int64) (n int, ok bool, err error)
	// WriteAt writes all of p or returns an error with the count that was
	// written. If durable, the bytes are on stable storage when it returns.
	WriteAt(p []byte, off int64, durable bool) (int, error)
	// WriteVec is WriteAt for memory in several pieces, none of them empty, which are
	// written one behind the other, with as few calls of the system as can be. It uses up
	// the list, and not what that refers to.
	WriteVec(pieces [][]byte, off int64, durable bool) (int, error)
	// Sync puts all that was written on stable storage.
	Sync() error
	Truncate(size int64) error
	Stat() (FileInfo, error)
	SetTimes(t Times) error
	// SetReadOnly takes away or gives back the permission to write.
	SetReadOnly(on bool) error
	// Writable reports whether the server process may write the file, or add to
	// the directory.
	Writable() bool
	// Names returns up to n more names of a directory, as they are on disk, and
	// io.EOF after the last; restart begins anew.
	Names(n int, restart bool) ([]string, error)
	// Entry describes the entry name of a directory, following links inside the
	// tree. dir is the directory's path.
	Entry(dir, name string) (FileInfo, error)
	// File is the descriptor, or nil if there is none. It stays the handle's.
	File() *os.File
	Close() error
}

// NodeID identifies a file across all backends of a host, whatever its name.
type NodeID struct {
	Device, File uint64
}

// FileInfo describes a file. Sizes are in bytes; a zero time is unknown.
type FileInfo struct {
	// Name is the last name of the path; "" for the root.
	Name           string
	Size           int64
	AllocationSize int64
	Attributes     uint32
	Dir            bool
	// Special is what is neither a file nor a directory, and never served.
	Special bool
	// ID is the file's number, unique on Device.
	ID, Device                           uint64
	Links                                uint32
	Created, Accessed, Modified, Changed time.Time
	DeletePending                        bool
}

// Node is the identity of the file.
func (i FileInfo) Node() NodeID { return NodeID{Device: i.Device, File: i.ID} }

// ReadOnly reports whether nobody may write the file.
func (i FileInfo) ReadOnly() bool { return i.Attributes&AttrReadOnly != 0 }

// Times are timestamps to set; a zero one stays as it is. Created cannot be
// kept by most file systems, and is then ignored.
type Times struct {
	Created, Accessed, Modified time.Time
}

// VolumeInfo describes the file system that a share is on. Sizes in bytes.
type VolumeInfo struct {
	// Total and Free; Available is what the server process may still use.
	Total, Free, Available uint64
	// BlockSize is the unit of allocation.
	BlockSize uint32
	// Serial identifies the volume.
	Serial uint64
	// FileSystem is a name such as "ext4".
	FileSystem string
	// MaxName bounds one name, in bytes.
	MaxName uint32
	// ReadOnly: nothing can be written at all.
	ReadOnly bool
	// Created is when the share's root came to be, or zero.
	Created time.Time
}
