package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"

	"lwio/internal/ntstatus"
)

func TestErrorsNameOperationAndCause(t *testing.T) {
	lost := &lostError{errors.New("reset")}
	for _, c := range []struct {
		err  error
		text string
		is   []error
		not  []error
	}{
		{
			Wrap("open", "a/b", fmt.Errorf("smb: create: %w", ntstatus.ObjectNameNotFound)),
			"lwio: open a/b: no such file or directory (STATUS_OBJECT_NAME_NOT_FOUND)", []error{fs.ErrNotExist, ntstatus.ObjectNameNotFound}, []error{fs.ErrExist},
		},
		{Wrap("remove", "a", ntstatus.CannotDelete), "lwio: remove a: cannot be deleted (STATUS_CANNOT_DELETE)", []error{fs.ErrPermission}, nil},
		{Wrap("read", "", lost), "lwio: read .: connection lost: reset", []error{net.ErrClosed}, []error{ErrUncertain}},
		{
			Wrap("write", "f", &uncertainError{lost}), "lwio: write f: outcome uncertain: connection lost: reset",
			[]error{net.ErrClosed, ErrUncertain}, nil,
		},
		{Wrap("write", "f", &uncertainError{context.DeadlineExceeded}), "lwio: write f: outcome uncertain: context deadline exceeded", []error{context.DeadlineExceeded}, nil},
		{Wrap("read", "f", context.DeadlineExceeded), "lwio: read f: context deadline exceeded", []error{os.ErrDeadlineExceeded, context.DeadlineExceeded}, []error{ErrLocked}},
		{Wrap("read", "f", context.Canceled), "lwio: read f: context canceled", []error{context.Canceled}, []error{os.ErrDeadlineExceeded}},
		{Wrap("read", "f", ntstatus.InvalidParameter), "lwio: read f: invalid argument (STATUS_INVALID_PARAMETER)", []error{fs.ErrInvalid}, nil},
		{Wrap("open", "f", fs.ErrClosed), "lwio: open f: file already closed", []error{fs.ErrClosed}, []error{ErrStale}},
		{Wrap("read", "f", ntstatus.FileClosed), "lwio: read f: the server has closed the file (STATUS_FILE_CLOSED)", []error{fs.ErrClosed, ErrStale}, nil},
		{ProtocolError("%d bytes", 3), "protocol error: 3 bytes", []error{ErrProtocol}, nil},
	} {
		if c.err.Error() != c.text {
			t.Errorf("%q, want %q", c.err, c.text)
		}
		for _, target := range c.is {
			if !errors.Is(c.err, target) {
				t.Errorf("%v is not %v", c.err, target)
			}
		}
		for _, target := range c.not {
			if errors.Is(c.err, target) {
				t.Errorf("%v is %v", c.err, target)
			}
		}
	}
	if Wrap("read", "f", io.EOF) != io.EOF || Wrap("read", "f", nil) != nil { //nolint:errorlint // bare io.EOF is the contract
		t.Error("io.EOF or nil was wrapped")
	}
	var e net.Error
	if !errors.As(Wrap("read", "f", os.ErrDeadlineExceeded), &e) || !e.Timeout() {
		t.Error("a timeout does not say so")
	}
	if !IsLost(&uncertainError{lost}) || IsLost(net.ErrClosed) {
		t.Error("isLost")
	}
}
