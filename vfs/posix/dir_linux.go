package posix

import (
	"errors"
	"io/fs"
	"os"
	pathpkg "path"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lwio/vfs"
)

// nonBlock makes the open of a FIFO or a leased file return at once.
const nonBlock = unix.O_NONBLOCK | unix.O_NOCTTY

func appendFlag(how vfs.HandleMode) int {
	if how.Append {
		return os.O_APPEND
	}
	return 0
}

// fillSys adds the fields that only the operating system's structure has.
func fillSys(_ *Dir, _ string, fi fs.FileInfo, info *vfs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.ErrUnsupported
	}
	info.ID, info.Device, info.Links = st.Ino, st.Dev, uint32(st.Nlink)
	info.Accessed = time.Unix(st.Atim.Unix())
	info.Changed = time.Unix(st.Ctim.Unix())
	info.Created = oldest(info.Modified, info.Changed)
	if !info.Dir {
		info.AllocationSize = st.Blocks * 512
	}
	return nil
}

// oldest replaces an unknown time of creation.
func oldest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// parent opens the directory of path and returns the last name.
func (d *Dir) parent(path string) (f *os.File, name string, err error) {
	f, err = d.root.OpenFile(pathpkg.Dir(path), os.O_RDONLY|unix.O_DIRECTORY|nonBlock, 0)
	return f, lastName(path), translate(err)
}

// named checks that name in the directory dir still leads to node. link reports whether it is a
// symbolic link.
func (d *Dir) named(dir *os.File, name, path string, node vfs.NodeID) (link bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if (vfs.NodeID{Device: st.Dev, File: st.Ino}) != node {
			return false, stale(path)
		}
		return false, nil
	}
	info, err := d.Stat(path)
	if err == nil && info.Node() != node {
		err = stale(path)
	}
	return true, err
}

// Remove deletes a name.
func (d *Dir) Remove(path string, node vfs.NodeID, dir bool) error {
	parent, name, err := d.parent(path)
	if err != nil {
		return err
	}
	defer parent.Close()
	link, err := d.named(parent, name, path, node)
	if err != nil {
		return translate(err)
	}
	flags := 0
	if dir && !link {
		flags = unix.AT_REMOVEDIR
	}
	return translate(eintr(func() error { return unix.Unlinkat(int(parent.Fd()), name, flags) }))
}

// Rename moves a name.
func (d *Dir) Rename(from, to string, node vfs.NodeID, replace bool) error {
	oldDir, oldName, err := d.parent(from)
	if err != nil {
		return err
	}
	defer oldDir.Close()
	newDir, newName := oldDir, lastName(to)
	if pathpkg.Dir(from) != pathpkg.Dir(to) {
		if newDir, _, err = d.parent(to); err != nil {
			return err
		}
		defer newDir.Close()
	}
	if _, err := d.named(oldDir, oldName, from, node); err != nil {
		return translate(err)
	}
	oldFd, newFd := int(oldDir.Fd()), int(newDir.Fd())
	if replace {
		return translate(eintr(func() error { return unix.Renameat(oldFd, oldName, newFd, newName) }))
	}
	err = eintr(func() error { return unix.Renameat2(oldFd, oldName, newFd, newName, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// The file system cannot do it atomically.
		var st unix.Stat_t
		if e := unix.Fstatat(newFd, newName, &st, unix.AT_SYMLINK_NOFOLLOW); e == nil {
			return fs.ErrExist
		}
		err = eintr(func() error { return unix.Renameat(oldFd, oldName, newFd, newName) })
	}
	return translate(err)
}

// CheckRemove reports whether the process may change the directory of path.
func (d *Dir) CheckRemove(path string) error {
	parent, _, err := d.parent(path)
	if err != nil {
		return err
	}
	defer parent.Close()
	if !accessible(int(parent.Fd()), unix.W_OK|unix.X_OK) {
		return &fs.PathError{Op: "access", Path: path, Err: unix.EACCES}
	}
	return nil
}

// accessible reports whether the process may access the file fd in that mode.
func accessible(fd int, mode uint32) bool {
	err := unix.Faccessat2(fd, "", mode, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		var st unix.Stat_t
		return unix.Fstat(fd, &st) == nil && st.Mode&0o222 != 0
	}
	return err == nil
}

// Volume describes the file system, by statfs.
func (d *Dir) Volume() (vfs.VolumeInfo, error) {
	f, err := d.root.OpenFile(".", os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return vfs.VolumeInfo{}, translate(err)
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := eintr(func() error { return unix.Fstatfs(int(f.Fd()), &st) }); err != nil {
		return vfs.VolumeInfo{}, err
	}
	info, err := statx(int(f.Fd()), "")
	size := uint64(st.Frsize)
	if size == 0 {
		size = uint64(st.Bsize)
	}
	return vfs.VolumeInfo{
		Total:      st.Blocks * size,
		Free:       st.Bfree * size,
		Available:  st.Bavail * size,
		BlockSize:  uint32(size),
		Serial:     info.Device,
		FileSystem: fsName(int64(st.Type)),
		MaxName:    uint32(st.Namelen),
		ReadOnly:   st.Flags&unix.ST_RDONLY != 0,
		Created:    info.Created,
		HostClock:  hasHostClock(int64(st.Type)),
	}, err
}

// fsName names the common file systems.
func fsName(magic int64) string {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	}
	return "unix"
}

// hasHostClock reports whether the kernel of this host sets the times of changes: it does for local file systems.
func hasHostClock(magic int64) bool {
	switch magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

// eintr repeats f while a signal interrupts it.
func eintr(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// statx describes the file fd, or the entry name of the directory fd without
// following it.
func statx(fd int, name string) (vfs.FileInfo, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	err := eintr(func() error {
		return unix.Statx(fd, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return vfs.FileInfo{}, err
	}
	info := vfs.FileInfo{
		Name:           name,
		Size:           int64(st.Size),
		AllocationSize: int64(st.Blocks) * 512,
		ID:             st.Ino,
		Device:         unix.Mkdev(st.Dev_major, st.Dev_minor),
		Links:          st.Nlink,
		Accessed:       stamp(st.Atime),
		Modified:       stamp(st.Mtime),
		Changed:        stamp(st.Ctime),
	}
	info.Created = oldest(info.Modified, info.Changed)
	if st.Mask&unix.STATX_BTIME != 0 {
		info.Created = stamp(st.Btime)
	}
	kind := uint32(st.Mode) & unix.S_IFMT
	setMode(&info, kind == unix.S_IFDIR, kind == unix.S_IFREG, st.Mode&0o222 != 0)
	return info, nil
}

func stamp(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// isLink reports whether an entry is a symbolic link.
func isLink(fd int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// keep keeps f open up to this call.
func keep(f *os.File) { runtime.KeepAlive(f) }
