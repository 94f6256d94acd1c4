package vfs

import (
	"os"
	"time"
)

// Backend is a tree of files. Paths are slash-separated and relative, have passed this
// package's rules, and "" is the root. All methods are safe for concurrent use. Only the table of
// opens calls them.
//
// Errors wrap Go's errors (fs.ErrNotExist, an errno, ...) or an NT status; a path that leads
// outside is ACCESS_DENIED.
type Backend interface {
	// Stat describes the file at path, following links inside the tree.
	Stat(path string) (FileInfo, error)
	// Open opens an existing regular file or, with how.Dir, a directory. It never waits for
	// another process, even if the name is of a FIFO.
	Open(path string, how HandleMode) (Handle, error)
	// Create creates a regular file, which must not exist, and opens it.
	Create(path string, how HandleMode, readOnly bool) (Handle, error)
	// Mkdir creates a directory.
	Mkdir(path string) error
	// Remove deletes the name path if it still stands for the file node. The error of a
	// directory with entries is ENOTEMPTY or DIRECTORY_NOT_EMPTY.
	Remove(path string, node NodeID, dir bool) error
	// Link reports whether the name path itself is a link.
	Link(path string) bool
	// Rename gives from, if it still stands for node, the name to. With replace an existing
	// file of that name is deleted; without, the error is fs.ErrExist.
	Rename(from, to string, node NodeID, replace bool) error
	// Removable reports whether the server may delete or rename path.
	Removable(path string) error
	// Volume describes the file system below.
	Volume() (VolumeInfo, error)
	// Close releases the backend; handles stay valid. A second Close does nothing.
	Close() error
}

// HandleMode is the use of a handle.
type HandleMode struct {
	Read, Write bool
	// Append: every write goes to the end of the file and ignores its offset.
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
	// ReadCached is ReadAt without waiting; ok is false if only the first n bytes can be read
	// so.
	ReadCached(p []byte, off int64) (n int, ok bool, err error)
	// WriteAt writes all of p or returns an error with the count that was
	// written. If durable, the bytes are on stable storage when it returns.
	WriteAt(p []byte, off int64, durable bool) (int, error)
	// WriteVec is WriteAt for memory in several pieces, none of them empty, which are written
	// one after the other, with as few system calls as possible. It changes the list, not the
	// memory.
	WriteVec(pieces [][]byte, off int64, durable bool) (int, error)
	// Sync puts all written data on stable storage.
	Sync() error
	Truncate(size int64) error
	Stat() (FileInfo, error)
	SetTimes(t Times) error
	// SetReadOnly removes or restores the permission to write.
	SetReadOnly(on bool) error
	// Writable reports whether the server process may write the file, or create entries in the
	// directory.
	Writable() bool
	// Names returns up to n more names of a directory, as they are on disk, and io.EOF after the
	// last; restart begins from the start.
	Names(n int, restart bool) ([]string, error)
	// Entry describes the entry name of a directory, following links inside the
	// tree. dir is the directory's path.
	Entry(dir, name string) (FileInfo, error)
	// File is the descriptor, or nil if there is none. The handle owns it.
	File() *os.File
	Close() error
}

// NodeID identifies a file across all backends of a host, independently of its name.
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
	// Special: neither a regular file nor a directory, and never served.
	Special bool
	// ID is the file's number, unique on Device.
	ID, Device                           uint64
	Links                                uint32
	Created, Accessed, Modified, Changed time.Time
	DeletePending                        bool
}

// Node is the identity of the file.
func (i FileInfo) Node() NodeID { return NodeID{Device: i.Device, File: i.ID} }

// ReadOnly reports whether the file has no write permission.
func (i FileInfo) ReadOnly() bool { return i.Attributes&AttrReadOnly != 0 }

// Times are timestamps to set; a zero time leaves one unchanged. Most file systems cannot keep
// Created, and ignore it.
type Times struct {
	Created, Accessed, Modified time.Time
}

// VolumeInfo describes the file system that a share is on. Sizes in bytes.
type VolumeInfo struct {
	// Total and Free; Available may be used by the server process.
	Total, Free, Available uint64
	// BlockSize is the unit of allocation.
	BlockSize uint32
	// Serial identifies the volume.
	Serial uint64
	// FileSystem is a name such as "ext4".
	FileSystem string
	// MaxName bounds one name, in bytes.
	MaxName uint32
	// ReadOnly: the file system is read-only.
	ReadOnly bool
	// Created is the time of creation of the share's root, or zero.
	Created time.Time
}
