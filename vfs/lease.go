package vfs

import (
	"context"
	"errors"
	"time"

	"lwio/internal/ntstatus"
)

// LeaseState is a set of things that the holder of a lease may do without asking the server.
//
// Source: [MS-SMB2 2.2.13.2.8], [MS-FSA 2.1.5.18]
type LeaseState uint8

// The parts of a lease. An oplock of level II is LeaseRead, an exclusive one LeaseRead and LeaseWrite, and
// a batch oplock all three.
const (
	// LeaseRead allows to cache reads.
	LeaseRead LeaseState = 1 << iota
	// LeaseHandle allows to delay a close.
	LeaseHandle
	// LeaseWrite allows to cache writes and byte-range locks.
	LeaseWrite
)

// LeaseKey names a lease: the client, and its key.
type LeaseKey struct {
	Client, Key [16]byte
}

// LeaseRequest asks for a lease with an open. All opens of a file with the same key share one lease. An
// oplock is a lease of one open, without a key.
//
// Source: [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11]
type LeaseRequest struct {
	Oplock bool
	// Key is the key of a lease, and not used for an oplock.
	Key LeaseKey
	// State is the state that the client asks for.
	State LeaseState
	// V2 says that a new lease has version 2, whose changes are counted. Epoch is the number with which the
	// client begins to count.
	V2    bool
	Epoch uint16
	// Directories says that the client knows leases of directories. A lease of version 2 of a directory allows to
	// cache its entries, and has no LeaseWrite. Otherwise an open of a directory has no lease.
	Directories bool
	// Parent is the lease that the client has of the directory of the file, or nil: changes of the entry by this open
	// do not break it.
	Parent *LeaseKey
	// Broken is called for each break of the lease, without a lock of this package. It must not wait. If
	// the result is LeaseAway for all opens of the lease, the lease ends at once.
	Broken func(LeaseBreak) LeaseReach
}

// LeaseReach is the way of a break to the client by an open of the lease.
type LeaseReach uint8

const (
	// LeaseAway says that the open has no client now.
	LeaseAway LeaseReach = iota
	// LeaseEnding says that the caller is about to close the open, which ends its part in the lease, or to call
	// Ownership.SetOrphan or Ownership.Abandon for it.
	LeaseEnding
	// LeaseReached says that the break is on its way to the client.
	LeaseReached
)

// LeaseBreak is a change of a lease that the server asks for.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7]
type LeaseBreak struct {
	From, To LeaseState
	// Ack says that the state stays From until the client acknowledges the break. Otherwise it is To.
	Ack   bool
	V2    bool // of the lease
	Epoch uint16
}

// LeaseInfo describes the lease of an open.
type LeaseInfo struct {
	State LeaseState
	// Breaking: a break waits for the acknowledgement of the client.
	Breaking bool
	V2       bool
	Epoch    uint16
}

// LeaseWait is the error of an operation that has to wait until the holder of a lease acknowledges its
// break. Nothing is done yet. The caller calls Wait without a lock, and then the operation again.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7], [MS-FSA 2.1.4.12]
type LeaseWait struct {
	lease   *lease
	changed <-chan struct{}
	until   time.Time
}

// Unwrap returns the status for a caller that does not wait.
func (w *LeaseWait) Unwrap() error { return ntstatus.SharingViolation }

// Error names the reason of the wait.
func (w *LeaseWait) Error() string { return "vfs: the break of a lease is not acknowledged yet" }

// Wait returns nil when the lease has changed. A holder that does not acknowledge in time
// (Config.LeaseTimeout) loses the lease.
//
// Errors: the cause of ctx's end.
func (w *LeaseWait) Wait(ctx context.Context) error {
	late := time.NewTimer(time.Until(w.until))
	defer late.Stop()
	select {
	case <-w.changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		w.lease.file.table.expire(w.lease)
	}
	return nil
}

// AsLeaseWait returns the wait that err asks for, or nil.
func AsLeaseWait(err error) *LeaseWait {
	var w *LeaseWait
	errors.As(err, &w)
	return w
}

// Lease returns the lease of the open. Without one the state is 0.
func (o *Open) Lease() LeaseInfo {
	l := o.caching.lease
	if l == nil {
		return LeaseInfo{}
	}
	t := o.caching.file.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return LeaseInfo{State: l.state, Breaking: l.breaking, V2: l.v2, Epoch: l.epoch}
}

// AcknowledgeLease ends the break of a lease with the state that its client keeps, and returns the new
// state of the lease. If another operation needs more meanwhile, the next break begins.
//
// Errors: OBJECT_NAME_NOT_FOUND for an unknown key, UNSUCCESSFUL if the lease is not being broken,
// REQUEST_NOT_ACCEPTED for a state that was not offered.
//
// Source: [MS-SMB2 3.3.5.22.2]
func (f *FS) AcknowledgeLease(key LeaseKey, state LeaseState) (LeaseState, error) {
	now, err := f.leases.acknowledge(f.leases.find(key), state)
	if err != nil {
		return 0, &Error{Op: "acknowledge", Name: "lease", Status: ntstatus.Of(err)}
	}
	return now, nil
}

// AcknowledgeOplock is AcknowledgeLease for the oplock of the open.
//
// Source: [MS-SMB2 3.3.5.22.1]
func (o *Open) AcknowledgeOplock(state LeaseState) (LeaseState, error) {
	l := o.caching.lease
	if l != nil && !l.oplock {
		l = nil
	}
	now, err := o.fs.leases.acknowledge(l, state)
	return now, o.fail("acknowledge", err)
}

// BreakLeases breaks the leases of others as a change of the size does, for a request that has no other
// effect.
//
// Source: [MS-FSA 2.1.5.15.1]
func (o *Open) BreakLeases() { o.caching.change() }

// RevokeLease ends the lease of the open, if it is being broken: its client cannot acknowledge the break
// any more. It reports whether that was so.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7]
func (o *Open) RevokeLease() bool {
	l := o.caching.lease
	return l != nil && o.fs.leases.revoke(l)
}
