// Package ntstatus holds the 32-bit NTSTATUS codes in which SMB, LWIO and the file layer
// report the result of an operation, and their translation to and from Go's errors.
package ntstatus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// Status is an NTSTATUS. It is an error, so that a layer can wrap it; the zero value means
// success and is never returned as an error.
//
// errors.Is maps it to the errors of the standard library: fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, fs.ErrInvalid, io.EOF,
// os.ErrDeadlineExceeded, errors.ErrUnsupported, context.Canceled,
// net.ErrClosed, and the errno that a local file system would have given.
//
// Source: [MS-ERREF 2.3]
type Status uint32

// Error returns the name of the status as the specification spells it.
func (s Status) Error() string {
	if n, ok := names[s]; ok {
		return "STATUS_" + n
	}
	return fmt.Sprintf("NTSTATUS 0x%08X", uint32(s))
}

// Failed reports whether s is a warning or an error, and not a success or an informational
// status.
func (s Status) Failed() bool { return s>>30 >= 2 }

// Err returns nil for a success status and s itself for any other.
func (s Status) Err() error {
	if s.Failed() {
		return s
	}
	return nil
}

// Is makes errors.Is(s, target) true for a Go error with the same meaning.
func (s Status) Is(target error) bool {
	for _, m := range meanings[s] {
		if m == target {
			return true
		}
	}
	return false
}

// meanings lists, for a status, the Go errors it satisfies under errors.Is.
var meanings = map[Status][]error{
	EndOfFile:              {io.EOF},
	NoMoreFiles:            {io.EOF},
	NoSuchFile:             {fs.ErrNotExist, syscall.ENOENT},
	ObjectNameNotFound:     {fs.ErrNotExist, syscall.ENOENT},
	ObjectPathNotFound:     {fs.ErrNotExist, syscall.ENOENT},
	BadNetworkName:         {fs.ErrNotExist},
	NotFound:               {fs.ErrNotExist},
	ObjectNameCollision:    {fs.ErrExist, syscall.EEXIST},
	AccessDenied:           {fs.ErrPermission, syscall.EACCES},
	PrivilegeNotHeld:       {fs.ErrPermission, syscall.EPERM},
	NetworkAccessDenied:    {fs.ErrPermission},
	LogonFailure:           {fs.ErrPermission},
	TimeDifferenceAtDC:     {fs.ErrPermission},
	AccountLockedOut:       {fs.ErrPermission},
	WrongPassword:          {fs.ErrPermission},
	CannotDelete:           {fs.ErrPermission},
	MediaWriteProtected:    {fs.ErrPermission, syscall.EROFS},
	SharingViolation:       {syscall.EBUSY},
	FileNotAvailable:       {syscall.EBUSY},
	FileLockConflict:       {syscall.EAGAIN},
	LockNotGranted:         {syscall.EAGAIN},
	RangeNotLocked:         {fs.ErrInvalid},
	InvalidViewSize:        {fs.ErrInvalid},
	InvalidLockRange:       {fs.ErrInvalid, syscall.EINVAL},
	DeletePending:          {fs.ErrNotExist, syscall.EBUSY},
	FileClosed:             {fs.ErrClosed},
	InvalidHandle:          {fs.ErrClosed},
	InvalidParameter:       {fs.ErrInvalid, syscall.EINVAL},
	ObjectNameInvalid:      {fs.ErrInvalid, syscall.EINVAL},
	ObjectPathSyntaxBad:    {fs.ErrInvalid, syscall.EINVAL},
	NameTooLong:            {fs.ErrInvalid, syscall.ENAMETOOLONG},
	DiskFull:               {syscall.ENOSPC},
	UnexpectedIOError:      {syscall.EIO},
	FileTooLarge:           {syscall.EFBIG},
	DirectoryNotEmpty:      {syscall.ENOTEMPTY},
	NotADirectory:          {syscall.ENOTDIR},
	FileIsADirectory:       {syscall.EISDIR},
	NotSameDevice:          {syscall.EXDEV},
	TooManyOpenedFiles:     {syscall.EMFILE},
	NotSupported:           {errors.ErrUnsupported},
	NotImplemented:         {errors.ErrUnsupported},
	InvalidDeviceRequest:   {errors.ErrUnsupported},
	IOTimeout:              {os.ErrDeadlineExceeded},
	Cancelled:              {context.Canceled},
	UserSessionDeleted:     {net.ErrClosed},
	NetworkNameDeleted:     {net.ErrClosed},
	NetworkSessionExpired:  {net.ErrClosed},
	ConnectionDisconnected: {net.ErrClosed},
	ConnectionAborted:      {net.ErrClosed, syscall.ECONNABORTED},
	ConnectionRefused:      {syscall.ECONNREFUSED},
}

// Of returns the status for an error: the Status that err wraps, or the translation of a Go
// error or errno. It returns Success for nil and UnexpectedIOError for an unknown error.
func Of(err error) Status {
	if err == nil {
		return Success
	}
	var s Status
	if errors.As(err, &s) {
		return s
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if s, ok := ofErrno(errno); ok {
			return s
		}
	}
	for _, m := range fromGo {
		if errors.Is(err, m.err) {
			return m.status
		}
	}
	return UnexpectedIOError
}

var fromGo = []struct {
	err    error
	status Status
}{
	{io.EOF, EndOfFile},
	{fs.ErrNotExist, ObjectNameNotFound},
	{fs.ErrExist, ObjectNameCollision},
	{fs.ErrPermission, AccessDenied},
	{fs.ErrClosed, FileClosed},
	{fs.ErrInvalid, InvalidParameter},
	{os.ErrDeadlineExceeded, IOTimeout},
	{context.DeadlineExceeded, IOTimeout},
	{context.Canceled, Cancelled},
	{errors.ErrUnsupported, NotSupported},
	{net.ErrClosed, ConnectionDisconnected},
}

func ofErrno(e syscall.Errno) (Status, bool) {
	switch e {
	case syscall.ENOENT:
		return ObjectNameNotFound, true
	case syscall.EEXIST:
		return ObjectNameCollision, true
	case syscall.EACCES, syscall.EPERM:
		return AccessDenied, true
	case syscall.EROFS:
		return MediaWriteProtected, true
	case syscall.ENOTDIR:
		return ObjectPathNotFound, true
	case syscall.EISDIR:
		return FileIsADirectory, true
	case syscall.ENOTEMPTY:
		return DirectoryNotEmpty, true
	case syscall.ENOSPC:
		return DiskFull, true
	case syscall.EIO:
		return UnexpectedIOError, true
	case syscall.EFBIG:
		return FileTooLarge, true
	case syscall.ENAMETOOLONG:
		return ObjectNameInvalid, true
	case syscall.ELOOP:
		return AccessDenied, true
	case syscall.EINVAL:
		return InvalidParameter, true
	case syscall.EMFILE, syscall.ENFILE:
		return TooManyOpenedFiles, true
	case syscall.EXDEV:
		return NotSameDevice, true
	case syscall.EBUSY, syscall.ETXTBSY:
		return SharingViolation, true
	case syscall.ENOMEM:
		return NoMemory, true
	}
	return 0, false
}
