package nbd

import (
	"errors"
	"io/fs"
	"syscall"

	"lwio/cmd/lwio/internal/nbd/nbdwire"
)

// errnoOf is the error value of the protocol for an error of a share.
//
// Source: [NBD §Error values]
func errnoOf(err error) nbdwire.Errno {
	var e nbdwire.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG):
		return nbdwire.ENOSPC
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return nbdwire.EPERM
	case errors.Is(err, syscall.ENOMEM):
		return nbdwire.ENOMEM
	}
	return nbdwire.EIO
}
