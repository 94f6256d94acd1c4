package mount

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"lwio"
)

// node is a file or directory that the kernel knows.
type node struct {
	fusefs.Inode
	m       *files
	created time.Time // tells a file from another one that takes its name
	opens   opens
}

var _ interface {
	fusefs.NodeLookuper
	fusefs.NodeGetattrer
	fusefs.NodeSetattrer
	fusefs.NodeOpener
	fusefs.NodeCreater
	fusefs.NodeMkdirer
	fusefs.NodeUnlinker
	fusefs.NodeRmdirer
	fusefs.NodeRenamer
	fusefs.NodeStatfser
	fusefs.NodeOpendirHandler
} = (*node)(nil)

// path returns the name of the file in the share.
func (n *node) path() string {
	if hidden := n.opens.hiddenName(); hidden != "" {
		return hidden
	}
	return n.Path(nil)
}

// beside returns the name in the share of an entry of a directory.
func (n *node) beside(name string) string { return path.Join(n.path(), name) }

// within returns the context of a request. An interrupt does not end a request: its outcome would be unknown, and programs
// that handle signals do not expect that from a file. Each request ends within the time limit of the client.
func within(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// known returns the inode of an entry of the directory: the present one if the entry is the same file, or a new one.
func (n *node) known(ctx context.Context, name string, i fs.FileInfo, out *fuse.EntryOut) *fusefs.Inode {
	n.m.look.attr(i, &out.Attr)
	created := createdAt(i)
	if in := n.GetChild(name); in != nil {
		if c := in.Operations().(*node); in.Mode() == kind(i) && c.created.Equal(created) {
			return in
		}
	}
	return n.NewInode(ctx, &node{m: n.m, created: created}, fusefs.StableAttr{Mode: kind(i)})
}

func createdAt(i fs.FileInfo) time.Time {
	if s, ok := i.Sys().(*lwio.SMBInfo); ok {
		return s.Created
	}
	return time.Time{}
}

// Lookup finds an entry of a directory.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	if len(name) > unix.NAME_MAX {
		return nil, syscall.ENAMETOOLONG
	}
	i, err := n.m.c.Stat(within(ctx), n.beside(name))
	if err != nil {
		return nil, errnoOf(err)
	}
	return n.known(ctx, name, i, out), 0
}

// Getattr describes the file.
func (n *node) Getattr(ctx context.Context, fh fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	i, err := n.stat(within(ctx), fh)
	if err != nil {
		return errnoOf(err)
	}
	n.m.look.attr(i, &out.Attr)
	if n.opens.hiddenName() != "" {
		out.Nlink = 0
	}
	return 0
}

// stat asks by a handle if there is one: the file may have no name, or another one, by now.
func (n *node) stat(ctx context.Context, fh fusefs.FileHandle) (fs.FileInfo, error) {
	if h, ok := fh.(*handle); ok {
		return h.f.Stat(ctx)
	}
	if f := n.opens.any(); f != nil {
		if i, err := f.Stat(ctx); !errors.Is(err, fs.ErrClosed) {
			return i, err
		}
	}
	return n.m.c.Stat(ctx, n.path())
}

// Setattr changes the size and the times of the file. SMB carries neither owners nor modes: a change of the mode has no
// effect, so that read-only files can be removed as POSIX has it, and a change of the owner is refused.
func (n *node) Setattr(ctx context.Context, fh fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if uid, ok := in.GetUID(); ok && uid != n.m.look.uid {
		return syscall.EPERM
	}
	if gid, ok := in.GetGID(); ok && gid != n.m.look.gid {
		return syscall.EPERM
	}
	ctx = within(ctx)
	if size, ok := in.GetSize(); ok {
		if err := n.truncate(ctx, fh, int64(size)); err != nil {
			return errnoOf(err)
		}
	}
	accessed, setAccessed := in.GetATime()
	modified, setModified := in.GetMTime()
	if setAccessed || setModified {
		if err := n.m.c.Chtimes(ctx, n.path(), accessed, modified); err != nil {
			return errnoOf(err)
		}
	}
	return n.Getattr(ctx, fh, out)
}

func (n *node) truncate(ctx context.Context, fh fusefs.FileHandle, size int64) error {
	if h, ok := fh.(*handle); ok && h.writes {
		return h.f.Truncate(ctx, size)
	}
	f, err := n.m.c.OpenFile(ctx, n.path(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(ctx, size), f.Close())
}

// Open opens a file.
func (n *node) Open(ctx context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	f, err := n.m.c.OpenFile(within(ctx), n.path(), openFlags(flags), 0)
	if err != nil {
		return nil, 0, errnoOf(err)
	}
	return n.opened(f, flags), n.m.openFlags, 0
}

// opened returns the handle of a file that was opened.
func (n *node) opened(f *lwio.File, flags uint32) *handle {
	h := &handle{n: n, f: f, writes: flags&syscall.O_ACCMODE != syscall.O_RDONLY}
	n.opens.add(h)
	return h
}

// openFlags returns the flags of an open that the client takes. The kernel has resolved the others.
func openFlags(flags uint32) int {
	f := int(flags) & (syscall.O_ACCMODE | syscall.O_TRUNC)
	if flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0 {
		f |= os.O_SYNC
	}
	return f
}

// Create makes and opens a file.
func (n *node) Create(ctx context.Context, name string, flags, _ uint32, out *fuse.EntryOut) (*fusefs.Inode, fusefs.FileHandle, uint32, syscall.Errno) {
	f, err := n.m.c.OpenFile(within(ctx), n.beside(name), openFlags(flags)|os.O_CREATE|int(flags)&syscall.O_EXCL, 0o666)
	if err != nil {
		return nil, nil, 0, errnoOf(err)
	}
	in := n.known(ctx, name, f.OpenInfo(), out)
	return in, in.Operations().(*node).opened(f, flags), n.m.openFlags, 0
}

// Mkdir makes a directory.
func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	at := n.beside(name)
	if err := n.m.c.Mkdir(within(ctx), at, 0o777); err != nil {
		return nil, errnoOf(err)
	}
	i, err := n.m.c.Stat(within(ctx), at)
	if err != nil {
		return nil, errnoOf(err)
	}
	return n.known(ctx, name, i, out), 0
}

// hiddenPrefix begins the names of files without a name that are open.
const hiddenPrefix = ".lwio-unlinked-"

// Unlink removes a file. SMB keeps the name of a file that is open, so such a file gets a hidden name up to its last close.
func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	if in := n.GetChild(name); in != nil {
		if hidden, err := n.hide(within(ctx), name, in.Operations().(*node)); hidden || err != nil {
			return errnoOf(err)
		}
	}
	return errnoOf(n.m.c.Remove(within(ctx), n.beside(name)))
}

// hide gives a file of the directory a hidden name if it is open here.
func (n *node) hide(ctx context.Context, name string, c *node) (hidden bool, err error) {
	var b [8]byte
	rand.Read(b[:])
	from, to := n.beside(name), n.beside(hiddenPrefix+hex.EncodeToString(b[:]))
	return c.opens.hide(to, func() error { return n.m.c.Rename(ctx, from, to) })
}

// Rmdir removes an empty directory.
func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	return errnoOf(n.m.c.Remove(within(ctx), n.beside(name)))
}

// Rename moves a file or directory, and replaces a file or an empty directory.
func (n *node) Rename(ctx context.Context, name string, newParent fusefs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if flags != 0 {
		return syscall.EINVAL // the C library has other ways
	}
	ctx = within(ctx)
	to, ok := newParent.(*node)
	if !ok {
		return syscall.EXDEV
	}
	from, target := n.beside(name), to.beside(newName)
	if from == target {
		return 0
	}
	moved, old := n.GetChild(name), to.GetChild(newName)
	if old != nil && moved != nil && moved.IsDir() != old.IsDir() {
		if old.IsDir() {
			return syscall.EISDIR
		}
		return syscall.ENOTDIR
	}
	if old != nil && old.IsDir() {
		if err := n.m.c.Remove(ctx, target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errnoOf(err)
		}
	} else if old != nil {
		if _, err := to.hide(ctx, newName, old.Operations().(*node)); err != nil {
			return errnoOf(err)
		}
	}
	return errnoOf(n.m.c.Rename(ctx, from, target))
}

// Statfs describes the file system of the share.
func (n *node) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	s, err := n.m.c.Space(within(ctx))
	if err != nil {
		return errnoOf(err)
	}
	out.Bsize, out.Frsize, out.NameLen = uint32(s.BlockSize), uint32(s.BlockSize), unix.NAME_MAX
	out.Blocks, out.Bfree, out.Bavail = uint64(s.Total/s.BlockSize), uint64(s.Free/s.BlockSize), uint64(s.Available/s.BlockSize)
	return 0
}

// OpendirHandle lists a directory.
func (n *node) OpendirHandle(context.Context, uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	return &listing{n: n}, 0, 0
}

// isHidden reports whether an entry of a directory is a file without a name.
func isHidden(name string) bool { return strings.HasPrefix(name, hiddenPrefix) }
