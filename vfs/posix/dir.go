// Package posix is the backend of vfs for a directory of this host.
package posix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	pathpkg "path"
	"strings"
	"sync"
	"syscall"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// Dir serves a directory of this host. Nothing outside the directory can be reached through
// it: every path is resolved below a descriptor of the directory, symbolic links included,
// even if other processes change them meanwhile. It follows the directory if that is renamed.
//
// A directory that the server process may not read, and a file that it may neither read nor
// write, cannot be opened.
type Dir struct {
	root   *os.Root
	probes sync.Map // device -> readMode, see ReadCached
}

var _ vfs.Backend = (*Dir)(nil)

// Permissions of created files and directories, before the umask.
const (
	filePerm     fs.FileMode = 0o666
	readOnlyPerm fs.FileMode = 0o444
	dirPerm      fs.FileMode = 0o777
	writeBits    fs.FileMode = 0o222
)

// OpenDir opens the directory path as a backend.
//
// Errors: the errors of opening the directory, with the path.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("vfs: share a directory: %w", err)
	}
	return &Dir{root: root}, nil
}

// Close closes the descriptor of the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Stat describes the file at path.
func (d *Dir) Stat(path string) (vfs.FileInfo, error) {
	fi, err := d.root.Stat(onDisk(path))
	if err != nil {
		return vfs.FileInfo{}, translate(err)
	}
	info, err := d.infoOf(onDisk(path), fi)
	info.Name = lastName(path)
	return info, err
}

// Open opens a regular file or a directory.
func (d *Dir) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	return d.openFile(path, how, openFlags(how), 0)
}

// Create creates a regular file.
func (d *Dir) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	perm := filePerm
	if readOnly {
		perm = readOnlyPerm
	}
	return d.openFile(path, how, openFlags(how)|os.O_CREATE|os.O_EXCL, perm)
}

// openFile opens path and checks that it is a regular file or a directory, as how asks.
func (d *Dir) openFile(path string, how vfs.HandleMode, flags int, perm fs.FileMode) (vfs.Handle, error) {
	f, err := d.root.OpenFile(onDisk(path), flags|nonBlock, perm)
	if err != nil {
		return nil, translate(err)
	}
	h, err := newFile(d, f, how)
	if err != nil {
		return nil, errors.Join(translate(err), f.Close())
	}
	if flags&os.O_EXCL != 0 {
		return h, nil // a new file is a regular one
	}
	info, err := h.Stat()
	switch {
	case err != nil:
	case info.Special:
		err = ntstatus.AccessDenied.Because(errors.New("neither a file nor a directory"))
	case info.Dir && !how.Dir:
		err = ntstatus.FileIsADirectory
	case !info.Dir && how.Dir:
		err = ntstatus.NotADirectory
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// openFlags are the flags of open(2) for how.
func openFlags(how vfs.HandleMode) int {
	switch {
	case how.Dir:
		return os.O_RDONLY
	case how.Read && how.Write:
		return os.O_RDWR | appendFlag(how)
	case how.Write:
		return os.O_WRONLY | appendFlag(how)
	}
	return os.O_RDONLY
}

// Mkdir creates a directory.
func (d *Dir) Mkdir(path string) error {
	return translate(d.root.Mkdir(onDisk(path), dirPerm))
}

// IsLink reports whether the last name of path is a symbolic link.
func (d *Dir) IsLink(path string) bool {
	fi, err := d.root.Lstat(onDisk(path))
	return err == nil && fi.Mode()&fs.ModeSymlink != 0
}

// lastName is the last name of a path, "" for the root.
func lastName(path string) string {
	if path == "" {
		return ""
	}
	return pathpkg.Base(path)
}

// onDisk is the name of a path for os.Root.
func onDisk(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// translate adds the status to an error of the operating system whose status here is not that
// of the general table.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		var pe *fs.PathError
		if errors.As(err, &pe) && ntstatus.Of(err) == ntstatus.UnexpectedIOError {
			// os.Root has no error number for a path that leads outside.
			return ntstatus.AccessDenied.Because(err)
		}
		return err
	}
	if s, ok := special(errno); ok {
		return s.Because(err)
	}
	return err
}

// special returns the status of an error number that means something else here than in the
// general table.
func special(errno syscall.Errno) (ntstatus.Status, bool) {
	switch errno {
	case syscall.EDQUOT:
		return ntstatus.DiskFull, true
	case syscall.ENXIO, syscall.ENODEV, syscall.EOPNOTSUPP:
		return ntstatus.AccessDenied, true // a FIFO, a socket, a device
	case syscall.EAGAIN:
		return ntstatus.SharingViolation, true // a lease
	case syscall.ENOTEMPTY:
		return ntstatus.DirectoryNotEmpty, true
	default:
		return 0, false
	}
}

// infoOf returns the FileInfo of path, of which os.Root returned fi.
func (d *Dir) infoOf(path string, fi fs.FileInfo) (vfs.FileInfo, error) {
	info := vfs.FileInfo{
		Name:           fi.Name(),
		Size:           fi.Size(),
		AllocationSize: fi.Size(),
		Links:          1,
		Modified:       fi.ModTime(),
		Accessed:       fi.ModTime(),
		Changed:        fi.ModTime(),
	}
	setMode(&info, fi.IsDir(), fi.Mode().IsRegular(), fi.Mode()&writeBits != 0)
	err := fillSys(d, path, fi, &info)
	return info, err
}

// setMode sets the fields that depend on the type and the permissions of a file.
func setMode(i *vfs.FileInfo, dir, regular, writable bool) {
	i.Dir, i.Special = dir, !dir && !regular
	switch {
	case dir:
		i.Attributes = vfs.AttrDirectory
		i.Size, i.AllocationSize = 0, 0
	case !writable:
		i.Attributes = vfs.AttrReadOnly
	default:
		i.Attributes = vfs.AttrNormal
	}
}

// visible describes the target of a directory entry that is a symbolic link.
func (d *Dir) visible(dir, name string) (vfs.FileInfo, error) {
	info, err := d.Stat(pathpkg.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = ntstatus.AccessDenied.Because(errors.New("link leads nowhere"))
	}
	return info, err
}

// stale is the error of a name that no longer stands for the file that was opened by it.
func stale(path string) error {
	return ntstatus.ObjectNameNotFound.Because(errors.New("another file has the name " + strings.ToValidUTF8(path, "?") + " now"))
}
