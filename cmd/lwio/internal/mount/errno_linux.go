package mount

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"lwio"
)

// errnos are the errors of a client that have an errno of the same meaning, the more specific ones first.
var errnos = []struct {
	err   error
	errno syscall.Errno
}{
	{lwio.ErrUncertain, syscall.EIO},
	{lwio.ErrStale, syscall.ESTALE},
	{context.Canceled, syscall.EINTR},
	{context.DeadlineExceeded, syscall.ETIMEDOUT},
	{os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
	{net.ErrClosed, syscall.EIO},
	{syscall.ENOENT, syscall.ENOENT},
	{fs.ErrNotExist, syscall.ENOENT},
	{fs.ErrExist, syscall.EEXIST},
	{syscall.EROFS, syscall.EROFS},
	{syscall.EPERM, syscall.EPERM},
	{fs.ErrPermission, syscall.EACCES},
	{syscall.ENAMETOOLONG, syscall.ENAMETOOLONG},
	{fs.ErrInvalid, syscall.EINVAL},
	{fs.ErrClosed, syscall.EBADF},
	{errors.ErrUnsupported, syscall.EOPNOTSUPP},
}

// errnoOf returns the errno for an error of the client. An error that has no errno of the same meaning is EIO.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	for _, e := range [...]syscall.Errno{
		syscall.ENOTEMPTY, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EXDEV,
		syscall.EMFILE, syscall.ELOOP, syscall.EBUSY, syscall.EAGAIN,
	} {
		if errors.Is(err, e) {
			return e
		}
	}
	return syscall.EIO
}
