package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"lwio"
	"lwio/internal/ntstatus"
)

func TestErrnoOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{ntstatus.ObjectNameNotFound, syscall.ENOENT},
		{ntstatus.DeletePending, syscall.ENOENT},
		{ntstatus.ObjectNameCollision, syscall.EEXIST},
		{ntstatus.AccessDenied, syscall.EACCES},
		{ntstatus.CannotDelete, syscall.EACCES},
		{ntstatus.MediaWriteProtected, syscall.EROFS},
		{ntstatus.PrivilegeNotHeld, syscall.EPERM},
		{ntstatus.SharingViolation, syscall.EBUSY},
		{ntstatus.FileLockConflict, syscall.EAGAIN},
		{ntstatus.DiskFull, syscall.ENOSPC},
		{ntstatus.FileTooLarge, syscall.EFBIG},
		{ntstatus.DirectoryNotEmpty, syscall.ENOTEMPTY},
		{ntstatus.NotADirectory, syscall.ENOTDIR},
		{ntstatus.FileIsADirectory, syscall.EISDIR},
		{ntstatus.NameTooLong, syscall.ENAMETOOLONG},
		{ntstatus.ObjectNameInvalid, syscall.EINVAL},
		{ntstatus.NotSameDevice, syscall.EXDEV},
		{ntstatus.UnexpectedIOError, syscall.EIO},
		{ntstatus.TooManyOpenedFiles, syscall.EMFILE},
		{lwio.ErrStale, syscall.ESTALE},
		{fmt.Errorf("%w: %w", lwio.ErrUncertain, fs.ErrNotExist), syscall.EIO},
		{context.DeadlineExceeded, syscall.ETIMEDOUT},
		{os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
		{context.Canceled, syscall.EINTR},
		{net.ErrClosed, syscall.EIO},
		{fs.ErrInvalid, syscall.EINVAL},
		{errors.ErrUnsupported, syscall.EOPNOTSUPP},
		{errors.New("another error"), syscall.EIO},
	} {
		if got := errnoOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
		if got := errnoOf(&lwio.Error{Op: "read", Err: c.err}); c.err != nil && got != c.want {
			t.Errorf("%v of a client: %v, want %v", c.err, got, c.want)
		}
	}
}
