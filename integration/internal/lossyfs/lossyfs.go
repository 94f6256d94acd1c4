// Package lossyfs is a file system in memory, mounted by FUSE, whose disk fails on demand: calls return
// errors, the disk is full, and a loss of power loses data that was not synced.
//
// It is one directory of files. Names are on stable storage at once. Only another process than
// the one that mounted it may use the files, because a call that waits for an answer of its own process
// may wait forever.
package lossyfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Op is a kind of call that can fail.
type Op uint8

// The kinds of calls.
const (
	Read Op = iota
	Write
	Sync
	Create
	Truncate
	Remove
	Rename
)

// Always is a number of failures without end.
const Always = -1

// unmountTime bounds the wait for a file system that is in use.
const unmountTime = 10 * time.Second

// FS is a mounted file system. Safe for concurrent use.
type FS struct {
	dir    string
	server *fuse.Server
	root   *root

	mu       sync.Mutex // guards the fields below, and the files
	failing  map[Op]failure
	calls    map[Op]int
	capacity int64 // bytes of all files; negative for no bound
	used     int64
	files    map[*file]bool
	direct   bool
	held     chan struct{} // closed to let syncs go on; nil if none waits
	waiting  int           // syncs that wait for held
}

// failure is an error for some calls.
type failure struct {
	errno syscall.Errno
	times int
}

// Mount mounts an empty file system on a directory. It needs the right to mount. The caller unmounts it.
func Mount(dir string) (*FS, error) {
	f := &FS{dir: dir, failing: make(map[Op]failure), calls: make(map[Op]int), capacity: -1, files: make(map[*file]bool)}
	var none time.Duration // the kernel asks for names and sizes each time
	f.root = &root{fs: f}
	server, err := fs.Mount(dir, f.root, &fs.Options{
		EntryTimeout: &none, AttrTimeout: &none, NegativeTimeout: &none,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "lossyfs", Name: "lossyfs", DisableXAttrs: true},
	})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	f.server = server
	return f, nil
}

// Unmount unmounts the file system. If it is still in use after some seconds, it is detached, and its
// users get errors.
func (f *FS) Unmount() error {
	for end := time.Now().Add(unmountTime); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(f.dir, 0)
		if errors.Is(err, unix.EBUSY) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("unmount %s: %w", f.dir, err), unix.Unmount(f.dir, unix.MNT_FORCE|unix.MNT_DETACH))
		}
		f.server.Wait()
		return err
	}
}

// Put makes a file with a content that is on the disk.
func (f *FS) Put(name string, content []byte) {
	f.mu.Lock()
	n := &file{fs: f, data: bytes.Clone(content), stable: bytes.Clone(content), modified: time.Now()}
	f.files[n] = true
	f.used += int64(len(content))
	f.mu.Unlock()
	f.root.AddChild(name, f.root.NewPersistentInode(context.Background(), n, fs.StableAttr{Mode: syscall.S_IFREG}), true)
}

// Content returns the content of a file, as a process would read it.
//
// Errors: os.ErrNotExist.
func (f *FS) Content(name string) ([]byte, error) {
	i := f.root.GetChild(name)
	if i == nil {
		return nil, os.ErrNotExist
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(i.Operations().(*file).data), nil
}

// Clear removes all files.
func (f *FS) Clear() {
	f.root.RmAllChildren()
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.files)
	f.used = 0
}

// Fail has the next calls of a kind return an error, a number of times, or Always.
func (f *FS) Fail(op Op, errno syscall.Errno, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing[op] = failure{errno, times}
}

// Limit bounds the bytes of all files, as a full disk does. A negative number is no bound.
func (f *FS) Limit(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = bytes
}

// Used returns the bytes of all files.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// Heal ends all failures.
func (f *FS) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.failing)
	f.capacity = -1
}

// Calls returns the number of calls of a kind, failed ones included.
func (f *FS) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// pageSize is the unit that a disk writes whole, in bytes.
const pageSize = 4096

// PowerCut loses a random part of the data that was not synced. The kernel still has the data of files that
// are open: first the process that has them open must end.
func (f *FS) PowerCut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.files {
		n.cut()
	}
}

// FailWriteback loses the data of all files that was not synced, as if the disk had failed when the kernel
// wrote it. The next sync of each handle that is open now reports it, and that of handles which are opened before
// the first report.
func (f *FS) FailWriteback() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.files {
		n.resize(len(n.stable))
		copy(n.data, n.stable)
		n.losses++
	}
}

// Direct has the kernel cache no data of files that are opened from now on: each read and write is a call. Through the
// cache a read can have the data from before a write that has ended, while other calls to the file make the kernel
// drop pages.
func (f *FS) Direct() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.direct = true
}

// openFlagsLocked returns the flags of a new handle. Precondition: mu is held.
func (f *FS) openFlagsLocked() uint32 {
	if f.direct {
		return fuse.FOPEN_DIRECT_IO
	}
	return 0
}

// callLocked counts a call and returns its error.
//
// Precondition: mu is held.
func (f *FS) callLocked(op Op) syscall.Errno {
	f.calls[op]++
	now, ok := f.failing[op]
	if !ok {
		return 0
	}
	if now.times--; now.times == 0 {
		delete(f.failing, op)
	} else {
		f.failing[op] = now
	}
	return now.errno
}

func (f *FS) call(op Op) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callLocked(op)
}

// root is the directory.
type root struct {
	fs.Inode
	fs *FS
}

var (
	_ fs.NodeCreater   = (*root)(nil)
	_ fs.NodeUnlinker  = (*root)(nil)
	_ fs.NodeRenamer   = (*root)(nil)
	_ fs.NodeStatfser  = (*root)(nil)
	_ fs.NodeGetattrer = (*root)(nil)
	_ fs.NodeFsyncer   = (*root)(nil)
)

// Getattr describes the directory, which is private.
func (r *root) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = syscall.S_IFDIR|0o700, 2
	return 0
}

// Fsync does nothing: names are on stable storage.
func (r *root) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }

// Create makes a file and opens it.
func (r *root) Create(ctx context.Context, _ string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := r.fs.call(Create); errno != 0 {
		return nil, nil, 0, errno
	}
	n := &file{fs: r.fs, modified: time.Now()}
	r.fs.mu.Lock()
	r.fs.files[n] = true
	n.describe(&out.Attr)
	flags := r.fs.openFlagsLocked()
	r.fs.mu.Unlock()
	return r.NewPersistentInode(ctx, n, fs.StableAttr{Mode: syscall.S_IFREG}), &handle{f: n}, flags, 0
}

// Unlink removes a name. Its bytes stay counted.
func (r *root) Unlink(context.Context, string) syscall.Errno { return r.fs.call(Remove) }

// Rename changes a name.
func (r *root) Rename(context.Context, string, fs.InodeEmbedder, string, uint32) syscall.Errno {
	return r.fs.call(Rename)
}

// Statfs reports free space.
func (r *root) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.NameLen = pageSize, pageSize, 255
	out.Blocks, out.Bfree, out.Bavail = 1<<20, 1<<20, 1<<20
	return 0
}

// file is a file, its data in the cache of the system and on the disk.
type file struct {
	fs.Inode
	fs *FS

	data, stable []byte
	losses       uint64 // failed writebacks
	reported     uint64 // losses that a sync has reported
	modified     time.Time
}

var (
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
)

// Open opens the file. The kernel drops the cached pages of the file, unless it is open.
func (n *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	return &handle{f: n, seen: n.reported}, n.fs.openFlagsLocked(), 0
}

// Getattr describes the file.
func (n *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	n.describe(&out.Attr)
	return 0
}

func (n *file) describe(a *fuse.Attr) {
	a.Mode, a.Nlink, a.Size = syscall.S_IFREG|0o644, 1, uint64(len(n.data))
	a.SetTimes(&n.modified, &n.modified, &n.modified)
}

// Setattr changes the size.
func (n *file) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		if errno := n.fs.callLocked(Truncate); errno != 0 {
			return errno
		}
		n.resize(int(size))
	}
	n.modified = time.Now()
	n.describe(&out.Attr)
	return 0
}

// resize changes the size, with zeros at the end.
func (n *file) resize(size int) {
	n.fs.used += int64(size - len(n.data))
	if size <= len(n.data) {
		n.data = n.data[:size:size]
		return
	}
	n.data = append(n.data, make([]byte, size-len(n.data))...)
}

// cut keeps a random part of the pages that were not synced.
func (n *file) cut() {
	before := n.data
	size := len(n.stable)
	if rand.IntN(2) == 0 {
		size = len(before)
	}
	n.data = append([]byte(nil), n.stable...)
	n.fs.used += int64(len(n.stable) - len(before))
	n.resize(size)
	for at := 0; at < min(size, len(before)); at += pageSize {
		if rand.IntN(2) == 0 {
			copy(n.data[at:], before[at:min(at+pageSize, len(before))])
		}
	}
	n.stable = append(n.stable[:0:0], n.data...)
}

// handle is an open of a file.
type handle struct {
	f    *file
	seen uint64 // losses that were reported
}

var (
	_ fs.FileReader  = (*handle)(nil)
	_ fs.FileWriter  = (*handle)(nil)
	_ fs.FileFsyncer = (*handle)(nil)
)

// Read reads up to len(dest) bytes.
func (h *handle) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	f := h.f.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	if errno := f.callLocked(Read); errno != 0 {
		return nil, errno
	}
	n := 0
	if off < int64(len(h.f.data)) {
		n = copy(dest, h.f.data[off:])
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// Write writes data, less if the disk is full.
func (h *handle) Write(_ context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	f := h.f.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	if errno := f.callLocked(Write); errno != 0 {
		return 0, errno
	}
	end := off + int64(len(data))
	if more := end - int64(len(h.f.data)); more > 0 && f.capacity >= 0 {
		end -= max(0, min(more, f.used+more-f.capacity))
	}
	if end <= off {
		return 0, syscall.ENOSPC
	}
	if end > int64(len(h.f.data)) {
		h.f.resize(int(end))
	}
	h.f.modified = time.Now()
	return uint32(copy(h.f.data[off:end], data)), 0
}

// Fsync puts the data on the disk. A loss since the last sync is reported once.
func (h *handle) Fsync(context.Context, uint32) syscall.Errno {
	f := h.f.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaitReleaseLocked()
	if errno := f.callLocked(Sync); errno != 0 {
		return errno
	}
	h.f.stable = append(h.f.stable[:0], h.f.data...)
	if h.seen != h.f.losses {
		h.seen, h.f.reported = h.f.losses, h.f.losses
		return syscall.EIO
	}
	return 0
}
