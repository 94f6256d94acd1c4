package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"lwio/internal/ntstatus"
)

// Dir is the Backend of a directory of this host. Nothing outside the directory
// can be reached through it: every path is resolved below a descriptor of the
// directory, symbolic links included, however somebody else may change them
// meanwhile. It follows the directory if that is renamed.
//
// A directory from which the server process may not read, or a file that it may
// neither read nor write, cannot be opened.
type Dir struct {
	root   *os.Root
	probes sync.Map // device -> readMode, see ReadCached
}

var _ Backend = (*Dir)(nil)

// Permissions of what is created, before the umask.
const (
	filePerm     fs.FileMode = 0o666
	readOnlyPerm fs.FileMode = 0o444
	dirPerm      fs.FileMode = 0o777
	writeBits    fs.FileMode = 0o222
)

// NewDir makes a backend of the directory path.
//
// Errors: those of opening it, with the path.
func NewDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("vfs: share a directory: %w", err)
	}
	return &Dir{root: root}, nil
}

// Close gives up the descriptor of the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Stat describes what path names.
func (d *Dir) Stat(path string) (FileInfo, error) {
	fi, err := d.root.Stat(onDisk(path))
	if err != nil {
		return FileInfo{}, translate(err)
	}
	info, err := d.infoOf(onDisk(path), fi)
	_, info.Name = split(path)
	return info, err
}

// Open opens a regular file or a directory.
func (d *Dir) Open(path string, how How) (Handle, error) {
	return d.openFile(path, how, openFlags(how), 0)
}

// Create creates a regular file.
func (d *Dir) Create(path string, how How, readOnly bool) (Handle, error) {
	perm := filePerm
	if readOnly {
		perm = readOnlyPerm
	}
	return d.openFile(path, how, openFlags(how)|os.O_CREATE|os.O_EXCL, perm)
}

// openFile opens path and makes sure that it is what a share serves, and what
// was asked for.
func (d *Dir) openFile(path string, how How, flags int, perm fs.FileMode) (Handle, error) {
	f, err := d.root.OpenFile(onDisk(path), flags|nonBlock, perm)
	if err != nil {
		return nil, translate(err)
	}
	h, err := newHandle(d, f, how)
	if err != nil {
		return nil, errors.Join(translate(err), f.Close())
	}
	info, err := h.Stat()
	switch {
	case err != nil:
	case info.Special:
		err = because(ntstatus.AccessDenied, "neither a file nor a directory")
	case info.Dir && !how.Dir:
		err = ntstatus.FileIsADirectory
	case !info.Dir && how.Dir:
		err = ntstatus.NotADirectory
	}
	if err != nil {
		return nil, discard(h, err)
	}
	return h, nil
}

// openFlags are the flags of open(2) for how.
func openFlags(how How) int {
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

// Link reports whether the last name of path is a symbolic link.
func (d *Dir) Link(path string) bool {
	fi, err := d.root.Lstat(onDisk(path))
	return err == nil && fi.Mode()&fs.ModeSymlink != 0
}

// onDisk is the name by which os.Root knows a path.
func onDisk(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// translate finds the status of an error of the operating system where the
// general table would say something else.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		var pe *fs.PathError
		if errors.As(err, &pe) && ntstatus.Of(err) == ntstatus.UnexpectedIOError {
			// os.Root has no error number for a path that leads outside.
			return &refusal{status: ntstatus.AccessDenied, err: err}
		}
		return err
	}
	if s, ok := special(errno); ok {
		return &refusal{status: s, err: err}
	}
	return err
}

// special holds the error numbers that mean something else here than elsewhere.
func special(errno syscall.Errno) (ntstatus.Status, bool) {
	switch errno {
	case syscall.EDQUOT:
		return ntstatus.DiskFull, true
	case syscall.ENXIO, syscall.ENODEV, syscall.EOPNOTSUPP:
		return ntstatus.AccessDenied, true // a FIFO, a socket, a device
	case syscall.EAGAIN:
		return ntstatus.SharingViolation, true // somebody's lease
	case syscall.ENOTEMPTY:
		return ntstatus.DirectoryNotEmpty, true
	default:
		return 0, false
	}
}

// infoOf makes a FileInfo of what os.Root found at path.
func (d *Dir) infoOf(path string, fi fs.FileInfo) (FileInfo, error) {
	info := FileInfo{
		Name:           fi.Name(),
		Size:           fi.Size(),
		AllocationSize: fi.Size(),
		Links:          1,
		Modified:       fi.ModTime(),
		Accessed:       fi.ModTime(),
		Changed:        fi.ModTime(),
	}
	info.setMode(fi.IsDir(), fi.Mode().IsRegular(), fi.Mode()&writeBits != 0)
	err := fillSys(d, path, fi, &info)
	return info, err
}

// setMode fills in what follows from the type and the permissions of a file.
func (i *FileInfo) setMode(dir, regular, writable bool) {
	i.Dir, i.Special = dir, !dir && !regular
	switch {
	case dir:
		i.Attributes = AttrDirectory
		i.Size, i.AllocationSize = 0, 0
	case !writable:
		i.Attributes = AttrReadOnly
	default:
		i.Attributes = AttrNormal
	}
}

// visible resolves the entry of a directory that is a symbolic link: it is
// listed as what it leads to.
func (d *Dir) visible(dir, name string) (FileInfo, error) {
	info, err := d.Stat(join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = because(ntstatus.AccessDenied, "link leads nowhere")
	}
	return info, err
}

// stale says that a name no longer stands for the file that was opened by it.
func stale(path string) error {
	return because(ntstatus.ObjectNameNotFound, "another file has the name "+strings.ToValidUTF8(path, "?")+" now")
}
