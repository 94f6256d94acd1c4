package rdma_test

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"lwio/rdma"
)

// Source: [ND Status codes]
func TestStatusMeanings(t *testing.T) {
	for _, c := range []struct {
		status rdma.Status
		is     error
	}{
		{rdma.StatusCanceled, net.ErrClosed},
		{rdma.StatusIOTimeout, os.ErrDeadlineExceeded},
		{rdma.StatusConnectionRefused, syscall.ECONNREFUSED},
		{rdma.StatusConnectionAborted, syscall.ECONNABORTED},
		{rdma.StatusConnectionInvalid, net.ErrClosed},
		{rdma.StatusNetworkUnreachable, syscall.ENETUNREACH},
		{rdma.StatusNetworkUnreachable, rdma.StatusBadNetworkName},
		{rdma.StatusHostUnreachable, syscall.EHOSTUNREACH},
		{rdma.StatusSharingViolation, syscall.EADDRINUSE},
		{rdma.StatusAddressAlreadyAssociated, syscall.EADDRINUSE},
		{rdma.StatusNotSupported, errors.ErrUnsupported},
		{rdma.StatusInvalidParameterN(7), rdma.StatusInvalidParameter},
	} {
		err := error(&rdma.Error{Op: "test", Status: c.status})
		if !errors.Is(err, c.is) {
			t.Errorf("%v is not %v", err, c.is)
		}
		if errors.Is(err, syscall.EXDEV) {
			t.Errorf("%v is anything", err)
		}
		if got := rdma.StatusOf(err); got != c.status {
			t.Errorf("StatusOf(%v) = %v", err, got)
		}
	}
}

func TestCanceledByHasStatusAndCause(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := rdma.CanceledBy(ctx, "connect", "somewhere")
	if !errors.Is(err, context.Canceled) || !errors.Is(err, rdma.StatusCanceled) || rdma.StatusOf(err) != rdma.StatusCanceled {
		t.Errorf("%v lacks one of its two causes", err)
	}
	if errors.Is(err, net.ErrClosed) {
		t.Errorf("%v is net.ErrClosed", err)
	}
	closed := &rdma.Error{Op: "poll", Status: rdma.StatusCanceled, Err: net.ErrClosed}
	if !errors.Is(closed, net.ErrClosed) || !errors.Is(closed, rdma.StatusCanceled) {
		t.Errorf("%v lacks one of its two causes", closed)
	}
}

// Source: [ND Op flags]
func TestOpAllowsItsFlags(t *testing.T) {
	for _, c := range []struct {
		op    rdma.Op
		flags rdma.Flags
		want  bool
	}{
		{rdma.OpSend, rdma.FlagSilentSuccess | rdma.FlagReadFence | rdma.FlagSolicitEvent | rdma.FlagInline, true},
		{rdma.OpSend, rdma.FlagAllowRead, false},
		{rdma.OpBind, rdma.FlagAllowWrite, true},
		{rdma.OpBind, rdma.FlagSilentSuccess, false},
		{rdma.OpInvalidate, rdma.FlagInline, false},
		{rdma.OpRead, rdma.FlagInline, false},
		{rdma.OpWrite, rdma.FlagInline | rdma.FlagImmediate, true},
		{rdma.OpWrite, rdma.FlagSolicitEvent, false},
		{rdma.OpReceive, rdma.FlagSilentSuccess, false},
		{rdma.OpFetchAdd, rdma.FlagSilentSuccess | rdma.FlagReadFence, true},
		{rdma.OpCompareSwap, rdma.FlagInline, false},
		{rdma.Op(9), 0, false},
	} {
		if got := c.op.Allows(c.flags); got != c.want {
			t.Errorf("%v.Allows(%#x) = %v, want %v", c.op, c.flags, got, c.want)
		}
	}
}
