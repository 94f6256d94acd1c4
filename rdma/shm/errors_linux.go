package shm

import (
	"context"
	"errors"
	"os"
	"syscall"

	"lwio/internal/host"
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// violation is a violation of the protocol by the peer.
type violation struct {
	status  rdma.Status
	receive rdma.Status
	reading rdma.Status
	err     error
}

func (v *violation) Error() string { return v.err.Error() }
func (v *violation) Unwrap() error { return v.err }

// remoteStatus returns the status of this side for a status of the peer.
func remoteStatus(s rdma.Status) rdma.Status {
	if s == rdma.StatusAccessViolation {
		return s
	}
	return rdma.StatusRemoteError
}

// recovered turns a fault in the peer's memory into an error. Any other panic continues.
// A fault means that a seal did not hold. A deferred function calls recovered with the
// results of debug.SetPanicOnFault and recover.
func recovered(old bool, x any) error {
	if !host.CaughtFault(old, x) {
		return nil
	}
	return &violation{status: rdma.StatusRemoteError, err: errFault}
}

// statusOf returns the status for an error of a start-up.
func statusOf(err error) rdma.Status {
	switch {
	case errors.Is(err, errRejected), errors.Is(err, errForbidden), softrdma.IsHangup(err), errors.Is(err, syscall.ECONNREFUSED):
		return rdma.StatusConnectionRefused
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.EAGAIN):
		return rdma.StatusIOTimeout
	case errors.Is(err, syscall.EADDRINUSE):
		return rdma.StatusSharingViolation
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOSPC), errors.Is(err, errForeign):
		return rdma.StatusInsufficientResources
	}
	return rdma.StatusConnectionAborted
}
