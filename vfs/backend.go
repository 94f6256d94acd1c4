package vfs

import (
	"os"
	"time"
)

// Backend is a tree of files. Its methods are called by an FS alone. Paths are slash-separated
// and relative and have passed the rules of this package; "" is the root. All methods are safe
// for concurrent use.
//
// Errors wrap the Go error or errno that names the cause: fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission, syscall.ENOSPC and so on. A path that leads out of the tree is
// fs.ErrPermission.
type Backend interface {
	// Stat describes the file at path. It follows links inside the tree.
	Stat(path string) (FileInfo, error)
	// Open opens an existing regular file or, with mode.Dir, a directory. It never waits for
	// another process, even if path names a FIFO.
	Open(path string, mode HandleMode) (Handle, error)
	// Create creates a regular file and opens it. With readOnly the file has no write
	// permission. An existing file is fs.ErrExist.
	Create(path string, mode HandleMode, readOnly bool) (Handle, error)
	// Mkdir creates a directory.
	Mkdir(path string) error
	// Remove deletes the name path if it still names node. dir tells whether node is a
	// directory. The error for a directory with entries is ENOTEMPTY.
	Remove(path string, node NodeID, dir bool) error
	// IsLink reports whether path itself is a symbolic link.
	IsLink(path string) bool
	// Rename changes the name from, if it still names node, into to. With replace it deletes
	// an existing file of that name; without replace the error is then fs.ErrExist.
	Rename(from, to string, node NodeID, replace bool) error
	// CheckRemove returns an error if the server process may not delete or rename path.
	CheckRemove(path string) error
	// Volume describes the file system that holds the tree.
	Volume() (VolumeInfo, error)
	// Close releases the backend. Open handles stay valid. A second Close does nothing.
	Close() error
}

// HandleMode is the use of a handle.
type HandleMode struct {
	// Read and Write are the access to the data.
	Read, Write bool
	// Append: every write goes to the end of the file and ignores its offset.
	Append bool
	// Dir: the handle is of a directory, for its listing.
	Dir bool
}

// Handle is an open file or directory of a backend. All methods but Names and Close may run
// concurrently. Close is called once, after all other calls have returned.
type Handle interface {
	// ReadAt reads up to len(p) bytes. Unlike io.ReaderAt it returns fewer bytes without an
	// error at the end of the file, and only there. It does not allocate.
	ReadAt(p []byte, off int64) (int, error)
	// ReadCached is ReadAt without waiting for a disk. ok is false if it read only the first n
	// bytes, because the others are not in memory.
	ReadCached(p []byte, off int64) (n int, ok bool, err error)
	// WriteAt writes all of p, or returns an error with the number of bytes written. With
	// durable the bytes are on stable storage when it returns.
	WriteAt(p []byte, off int64, durable bool) (int, error)
	// WriteVec is WriteAt for several pieces of memory, none of them empty. It writes them one
	// after another with as few system calls as possible. It may change the list, but not the
	// memory.
	WriteVec(pieces [][]byte, off int64, durable bool) (int, error)
	// Sync puts all written data on stable storage.
	Sync() error
	// Truncate changes the size of the file, in bytes.
	Truncate(size int64) error
	// Stat describes the file as it is now. Its Name may be empty.
	Stat() (FileInfo, error)
	// SetTimes sets the timestamps of t that are not zero.
	SetTimes(t Times) error
	// SetReadOnly removes or restores the permission to write.
	SetReadOnly(on bool) error
	// Writable reports whether the server process may write the file, or create entries in the
	// directory.
	Writable() bool
	// Names returns up to n further names of a directory, as they are on disk, and io.EOF after
	// the last. With restart it begins again at the first.
	Names(n int, restart bool) ([]string, error)
	// Entry describes the entry name of a directory. It follows links inside the tree. dir is
	// the path of the directory.
	Entry(dir, name string) (FileInfo, error)
	// Identity returns bytes that no other file of the host has had, also after the file was removed
	// and another one got its number, and that a later process finds again. errors.ErrUnsupported:
	// the backend has none.
	Identity() ([]byte, error)
	// File returns the descriptor, or nil if there is none. The handle owns it.
	File() *os.File
	// Close closes the file.
	Close() error
}

// NodeID identifies a file across all backends of a host, independently of its name.
type NodeID struct {
	Device, File uint64
}

// FileInfo describes a file.
type FileInfo struct {
	// Name is the last name of the path; "" for the root.
	Name string
	// Size and AllocationSize are the length of the file and the space that it occupies, in
	// bytes.
	Size, AllocationSize int64
	// Attributes are Attr constants.
	Attributes uint32
	// Dir: the file is a directory.
	Dir bool
	// Special: the file is neither a regular file nor a directory, and is never served.
	Special bool
	// ID is the number of the file, unique on Device.
	ID, Device uint64
	// Links is the number of names of the file.
	Links uint32
	// Created, Accessed and Modified are the times of creation, of the last read and of the
	// last write; Changed is the time of the last change of the metadata. A zero time is
	// unknown.
	Created, Accessed, Modified, Changed time.Time
	// DeletePending: the file is deleted when its last open is closed. Backends leave it false.
	DeletePending bool
}

// Node returns the identity of the file.
func (i FileInfo) Node() NodeID { return NodeID{Device: i.Device, File: i.ID} }

// ReadOnly reports whether the file has no write permission.
func (i FileInfo) ReadOnly() bool { return i.Attributes&AttrReadOnly != 0 }

// ReportedAttributes returns the attributes as clients get them. The server does not keep the mark of a file that is
// backed up: each file has the attribute of files that require a backup.
//
// Source: [MS-FSCC 2.6]
func (i FileInfo) ReportedAttributes() uint32 {
	if i.Dir {
		return i.Attributes
	}
	return i.Attributes&^AttrNormal | AttrArchive
}

// Times are timestamps to set. A zero time leaves a timestamp unchanged. Most file systems ignore
// Created.
type Times struct {
	Created, Accessed, Modified time.Time
}

// VolumeInfo describes the file system of a share. Sizes are in bytes.
type VolumeInfo struct {
	// Total and Free are the size and the free space; Available is the free space that the
	// server process may use.
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
	// HostClock: the clock of this host sets the times of changes of its files. On other file systems a server or a
	// program sets them, by a clock of its own.
	HostClock bool
}
