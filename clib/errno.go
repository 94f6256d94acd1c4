package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"

	"lwio"
)

// meanings are the errors that have an errno, the special before the general: the first that matches counts.
var meanings = []struct {
	err   error
	errno syscall.Errno
}{
	{lwio.ErrUncertain, syscall.EREMOTEIO}, // LWIO_EUNCERTAIN
	{lwio.ErrStale, syscall.ESTALE},
	{lwio.ErrLocked, syscall.EAGAIN},
	{lwio.ErrBatchFull, syscall.EAGAIN},
	{lwio.ErrBufferBusy, syscall.EBUSY},
	{lwio.ErrSpoofed, syscall.EKEYREJECTED},
	{lwio.ErrProtocol, syscall.EPROTO},
	{lwio.ErrNoRDMA, syscall.EPROTONOSUPPORT},
	{os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
	{context.DeadlineExceeded, syscall.ETIMEDOUT},
	{context.Canceled, syscall.ECANCELED},
	{syscall.EBUSY, syscall.EBUSY},
	{syscall.EAGAIN, syscall.EAGAIN},
	{syscall.EROFS, syscall.EROFS},
	{syscall.EPERM, syscall.EPERM},
	{syscall.EACCES, syscall.EACCES},
	{syscall.ENAMETOOLONG, syscall.ENAMETOOLONG},
	{syscall.ENOSPC, syscall.ENOSPC},
	{syscall.EFBIG, syscall.EFBIG},
	{syscall.ENOTEMPTY, syscall.ENOTEMPTY},
	{syscall.ENOTDIR, syscall.ENOTDIR},
	{syscall.EISDIR, syscall.EISDIR},
	{syscall.EXDEV, syscall.EXDEV},
	{syscall.EMFILE, syscall.EMFILE},
	{syscall.ECONNREFUSED, syscall.ECONNREFUSED},
	{syscall.ECONNABORTED, syscall.ECONNABORTED},
	{syscall.EBADF, syscall.EBADF},
	{fs.ErrNotExist, syscall.ENOENT},
	{fs.ErrExist, syscall.EEXIST},
	{fs.ErrPermission, syscall.EACCES},
	{fs.ErrClosed, syscall.EBADF},
	{fs.ErrInvalid, syscall.EINVAL},
	{errors.ErrUnsupported, syscall.EOPNOTSUPP},
	{net.ErrClosed, syscall.ENOTCONN},
	{io.EOF, syscall.ENODATA},
}

// errnoOf returns the errno of an error, EIO for one without a meaning of its own.
//
// Precondition: err is not nil.
func errnoOf(err error) syscall.Errno {
	for _, m := range meanings[:11] {
		if errors.Is(err, m.err) {
			return m.errno
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	for _, m := range meanings[11:] {
		if errors.Is(err, m.err) {
			return m.errno
		}
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return syscall.EHOSTUNREACH
	}
	return syscall.EIO
}

// invalid is syscall.EINVAL with a text that names the argument.
type invalid string

func (i invalid) Error() string        { return "lwio: " + string(i) }
func (i invalid) Is(target error) bool { return target == fs.ErrInvalid }
