package ntstatus_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"lwio/internal/ntstatus"
)

// Source: [MS-ERREF 2.3]
func TestOfAndIsAgree(t *testing.T) {
	for _, c := range []struct {
		err  error
		want ntstatus.Status
		is   error
	}{
		{nil, ntstatus.Success, nil},
		{fs.ErrNotExist, ntstatus.ObjectNameNotFound, fs.ErrNotExist},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}, ntstatus.DiskFull, syscall.ENOSPC},
		{fmt.Errorf("a: %w", ntstatus.SharingViolation), ntstatus.SharingViolation, syscall.EBUSY},
		{syscall.EIO, ntstatus.UnexpectedIOError, syscall.EIO},
		{fmt.Errorf("b: %w", ntstatus.FileNotAvailable), ntstatus.FileNotAvailable, syscall.EBUSY},
		{io.EOF, ntstatus.EndOfFile, io.EOF},
		{os.ErrDeadlineExceeded, ntstatus.IOTimeout, os.ErrDeadlineExceeded},
		{errors.ErrUnsupported, ntstatus.NotSupported, errors.ErrUnsupported},
		{errors.New("odd"), ntstatus.UnexpectedIOError, nil},
	} {
		got := ntstatus.Of(c.err)
		if got != c.want {
			t.Errorf("Of(%v) = %v, want %v", c.err, got, c.want)
		}
		if c.is != nil && !errors.Is(fmt.Errorf("wrapped: %w", got), c.is) {
			t.Errorf("%v is not %v", got, c.is)
		}
	}
}

func TestFailedIsTrueForWarningsAndErrors(t *testing.T) {
	for s, want := range map[ntstatus.Status]bool{
		ntstatus.Success: false, ntstatus.Pending: false,
		ntstatus.BufferOverflow: true, ntstatus.AccessDenied: true,
	} {
		if s.Failed() != want {
			t.Errorf("%v.Failed() = %v, want %v", s, s.Failed(), want)
		}
	}
	if got := ntstatus.Status(0xC0ABCDEF).Error(); got != "NTSTATUS 0xC0ABCDEF" {
		t.Errorf("unknown status prints %q", got)
	}
}
