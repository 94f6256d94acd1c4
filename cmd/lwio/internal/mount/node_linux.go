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

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"lwio"
)

// node is a file or directory that the kernel knows.
type node struct {
	fusefs.Inode
	m     *files
	id    identity
	opens opens
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
//
// Errors: ESTALE for a file that was removed.
func (n *node) path() (string, syscall.Errno) {
	if hidden := n.opens.hiddenAt().path(); hidden != "" {
		return hidden, 0
	}
	if _, parent := n.Parent(); parent == nil && !n.IsRoot() {
		return "", syscall.ESTALE
	}
	return n.Path(nil), 0
}

// beside returns the name in the share of an entry of a directory, which the kernel holds: it is not removed.
func (n *node) beside(name string) string { return path.Join(n.Path(nil), name) }

// within returns the context of a request. An interrupt does not end a request: its outcome would be unknown, and programs
// that handle signals do not expect that from a file. Each request ends within the time limit of the client.
func within(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// bounded is within for a request of several calls, which end together within the time limit.
func (m *files) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(within(ctx), m.timeout)
}

// known returns the inode of an entry of the directory: the present one if the entry is the same file, or a new one.
func (n *node) known(ctx context.Context, name string, i fs.FileInfo, out *fuse.EntryOut) *fusefs.Inode {
	n.m.look.attr(i, &out.Attr)
	id := identityOf(i)
	if in := n.GetChild(name); in != nil && in.Mode() == kind(i) && in.Operations().(*node).id == id {
		return in
	}
	return n.NewInode(ctx, &node{m: n.m, id: id}, fusefs.StableAttr{Mode: kind(i)})
}

// identity tells a file from another one that takes its name. A server without file IDs has times of creation.
type identity struct {
	id      uint64
	created int64 // 0 with an id: where a file system does not keep that time, it changes
}

func identityOf(i fs.FileInfo) identity {
	s, ok := i.Sys().(*lwio.SMBInfo)
	switch {
	case !ok:
		return identity{}
	case s.ID != 0:
		return identity{id: s.ID}
	}
	return identity{created: s.Created.UnixNano()}
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
	if n.opens.hiddenAt().dir != nil {
		out.Nlink = 0
	}
	return 0
}

// stat asks by a handle if there is one: the file may have no name, or another one, by now.
func (n *node) stat(ctx context.Context, fh fusefs.FileHandle) (fs.FileInfo, error) {
	if h, ok := fh.(*handle); ok {
		return h.f.Stat(ctx)
	}
	if f := n.opens.any(false); f != nil {
		if i, err := f.Stat(ctx); !errors.Is(err, fs.ErrClosed) {
			return i, err
		}
	}
	at, errno := n.path()
	if errno != 0 {
		return nil, errno
	}
	return n.m.c.Stat(ctx, at)
}

// Setattr changes size, times and mode of the file. Of the mode SMB carries whether the owner may write a file. A change of
// the owner is refused.
func (n *node) Setattr(ctx context.Context, fh fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if uid, ok := in.GetUID(); ok && uid != n.m.look.uid {
		return syscall.EPERM
	}
	if gid, ok := in.GetGID(); ok && gid != n.m.look.gid {
		return syscall.EPERM
	}
	ctx, cancel := n.m.bounded(ctx)
	defer cancel()
	if size, ok := in.GetSize(); ok {
		if err := n.truncate(ctx, fh, int64(size)); err != nil {
			return errnoOf(err)
		}
	}
	accessed, setAccessed := in.GetATime()
	modified, setModified := in.GetMTime()
	if setAccessed || setModified {
		at, errno := n.path()
		if errno != 0 {
			return errno
		}
		if err := n.m.c.Chtimes(ctx, at, accessed, modified); err != nil {
			return errnoOf(err)
		}
	}
	if mode, ok := in.GetMode(); ok && !n.IsDir() {
		at, errno := n.path()
		if errno != 0 {
			return errno
		}
		if err := n.m.c.Chmod(ctx, at, fs.FileMode(mode)&fs.ModePerm); err != nil {
			return errnoOf(err)
		}
	}
	return n.Getattr(ctx, fh, out)
}

// truncate changes the size of the file.
func (n *node) truncate(ctx context.Context, fh fusefs.FileHandle, size int64) error {
	if h, ok := fh.(*handle); ok && h.writes {
		return h.f.Truncate(ctx, size)
	}
	return n.withWriter(ctx, func(f *lwio.File) error { return f.Truncate(ctx, size) })
}

// withWriter calls do with the file, which it opens for writing.
func (n *node) withWriter(ctx context.Context, do func(*lwio.File) error) error {
	at, errno := n.path()
	if errno != 0 {
		return errno
	}
	f, err := n.m.c.OpenFile(ctx, at, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// Open opens a file.
func (n *node) Open(ctx context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	at, errno := n.path()
	if errno != 0 {
		return nil, 0, errno
	}
	f, err := n.m.c.OpenFile(within(ctx), at, openFlags(flags), 0)
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
	ctx, cancel := n.m.bounded(ctx)
	defer cancel()
	if in := n.GetChild(name); in != nil {
		if hidden, err := n.hide(ctx, name, in.Operations().(*node)); hidden || err != nil {
			return errnoOf(err)
		}
	}
	return errnoOf(n.m.c.Remove(ctx, n.beside(name)))
}

// hide gives a file of the directory a hidden name if it is open here.
func (n *node) hide(ctx context.Context, name string, c *node) (hidden bool, err error) {
	var b [8]byte
	rand.Read(b[:])
	at := hiddenName{n, hiddenPrefix + hex.EncodeToString(b[:])}
	return c.opens.hide(at, func() error { return n.m.c.Rename(ctx, n.beside(name), at.path()) })
}

// Rmdir removes an empty directory.
func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	return errnoOf(n.m.c.Remove(within(ctx), n.beside(name)))
}

// Rename moves a file or directory, and replaces a file or an empty directory. Of a replaced file that is open here, and of a
// replaced directory, there is a moment in which nothing has the name.
func (n *node) Rename(ctx context.Context, name string, newParent fusefs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if flags != 0 {
		return syscall.EINVAL // the C library has other ways
	}
	ctx, cancel := n.m.bounded(ctx)
	defer cancel()
	to, ok := newParent.(*node)
	if !ok {
		return syscall.EXDEV
	}
	from, target := n.beside(name), to.beside(newName)
	if from == target {
		return 0
	}
	moved, old := n.GetChild(name), to.GetChild(newName)
	switch {
	case old == nil:
	case moved != nil && moved.IsDir() && !old.IsDir():
		return syscall.ENOTDIR
	case moved != nil && !moved.IsDir() && old.IsDir():
		return syscall.EISDIR
	default:
		return errnoOf(to.replace(ctx, newName, old, func() error { return n.m.moved(ctx, from, target) }))
	}
	return errnoOf(n.m.moved(ctx, from, target))
}

// replace has move give the name of old, an entry of the directory, to another file. If move fails, old has its name again.
func (n *node) replace(ctx context.Context, name string, old *fusefs.Inode, move func() error) error {
	at := n.beside(name)
	if old.IsDir() {
		if err := n.m.c.Remove(ctx, at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := move()
		if err != nil {
			n.m.undo("directory", at, n.m.c.Mkdir(ctx, at, 0o777))
		}
		return err
	}
	c := old.Operations().(*node)
	hidden, err := n.hide(ctx, name, c)
	if err != nil {
		return err
	}
	err = move()
	if err != nil && hidden {
		was := c.opens.hiddenAt().path()
		n.m.undo("file", at, c.opens.show(func() error { return n.m.c.Rename(ctx, was, at) }))
	}
	return err
}

// moved moves a file or directory. A read-only file does not keep its name, as POSIX has it. If the outcome is unknown the
// old name says whether it has moved.
func (m *files) moved(ctx context.Context, from, target string) error {
	err := m.c.Rename(ctx, from, target)
	switch {
	case errors.Is(err, lwio.ErrUncertain):
		if _, failed := m.c.Stat(ctx, from); errors.Is(failed, fs.ErrNotExist) {
			return nil
		}
	case errors.Is(err, fs.ErrPermission):
		i, failed := m.c.Stat(ctx, target)
		if failed != nil || i.IsDir() || i.Mode()&0o200 != 0 || m.c.Chmod(ctx, target, 0o600) != nil {
			return err
		}
		if err = m.c.Rename(ctx, from, target); err != nil {
			m.undo("attribute of the file", target, m.c.Chmod(ctx, target, 0o400))
		}
	}
	return err
}

// undo reports that a change which a failed rename had made first stays.
func (m *files) undo(what, name string, err error) {
	if err != nil {
		m.log.Error("mount: after a failed rename the "+what+" is not as before", "name", name, "err", err)
	}
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
