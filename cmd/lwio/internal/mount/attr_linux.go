package mount

import (
	"io/fs"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"lwio"
)

// blockSize is the unit of the number of blocks of a file, and the preferred size of I/O is ioSize.
const (
	blockSize = 512
	ioSize    = 64 << 10
)

// look is how files appear to the programs of the mount: SMB carries neither owners nor all modes.
type look struct {
	uid, gid          uint32
	fileMode, dirMode uint32 // permissions
}

// kind returns the type bits of the mode of a file or directory.
func kind(i fs.FileInfo) uint32 {
	if i.IsDir() {
		return syscall.S_IFDIR
	}
	return syscall.S_IFREG
}

// attr fills the attributes of a file.
func (l *look) attr(i fs.FileInfo, out *fuse.Attr) {
	perm := l.fileMode
	if i.IsDir() {
		perm = l.dirMode
	}
	if i.Mode()&0o200 == 0 {
		perm &^= 0o222
	}
	out.Mode = kind(i) | perm
	out.Uid, out.Gid = l.uid, l.gid
	out.Size = uint64(i.Size())
	out.Nlink = 1
	out.Blksize = ioSize
	accessed, changed, modified := i.ModTime(), i.ModTime(), i.ModTime()
	out.Blocks = (out.Size + blockSize - 1) / blockSize
	if s, ok := i.Sys().(*lwio.SMBInfo); ok {
		accessed, changed = s.Accessed, s.Changed
		if s.AllocationSize > 0 {
			out.Blocks = uint64(s.AllocationSize) / blockSize
		}
	}
	out.SetTimes(&accessed, &modified, &changed)
}
