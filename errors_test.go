package lwio

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

func TestErrors(t *testing.T) {
	lost := &lostError{errors.New("reset")}
	for _, c := range []struct {
		err  error
		text string
		is   []error
		not  []error
	}{
		{
			wrap("open", "a/b", fmt.Errorf("smb: create: %w", ntstatus.ObjectNameNotFound)),
			"lwio: open a/b: no such file or directory (STATUS_OBJECT_NAME_NOT_FOUND)", []error{fs.ErrNotExist, ntstatus.ObjectNameNotFound}, []error{fs.ErrExist},
		},
		{wrap("remove", "a", ntstatus.CannotDelete), "lwio: remove a: cannot be deleted (STATUS_CANNOT_DELETE)", []error{fs.ErrPermission}, nil},
		{wrap("read", "", lost), "lwio: read .: connection lost: reset", []error{net.ErrClosed}, []error{ErrUncertain}},
		{
			wrap("write", "f", &uncertainError{lost}), "lwio: write f: outcome uncertain: connection lost: reset",
			[]error{net.ErrClosed, ErrUncertain}, nil,
		},
		{wrap("write", "f", &uncertainError{context.DeadlineExceeded}), "lwio: write f: outcome uncertain: context deadline exceeded", []error{context.DeadlineExceeded}, nil},
		{wrap("read", "f", context.DeadlineExceeded), "lwio: read f: context deadline exceeded", []error{os.ErrDeadlineExceeded, context.DeadlineExceeded}, []error{ErrLocked}},
		{wrap("read", "f", context.Canceled), "lwio: read f: context canceled", []error{context.Canceled}, []error{os.ErrDeadlineExceeded}},
		{wrap("read", "f", ntstatus.InvalidParameter), "lwio: read f: invalid argument (STATUS_INVALID_PARAMETER)", []error{fs.ErrInvalid}, nil},
		{wrap("open", "f", fs.ErrClosed), "lwio: open f: file already closed", []error{fs.ErrClosed}, nil},
		{protocolError("%d bytes", 3), "protocol error: 3 bytes", []error{ErrProtocol}, nil},
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
	if wrap("read", "f", io.EOF) != io.EOF || wrap("read", "f", nil) != nil { //nolint:errorlint // bare io.EOF is the contract
		t.Error("io.EOF or nil was wrapped")
	}
	var e net.Error
	if !errors.As(wrap("read", "f", errTimeout), &e) || !e.Timeout() {
		t.Error("a timeout does not say so")
	}
	if !isLost(&uncertainError{lost}) || isLost(net.ErrClosed) {
		t.Error("isLost")
	}
}
