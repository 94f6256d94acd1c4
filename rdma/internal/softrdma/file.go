package softrdma

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"lwio/rdma"
)

// FileSource is a regular file that writes read their data from. It is never mapped, so a
// file that shrinks causes no fault.
//
// Source: [OP-92i]
type FileSource struct {
	Raw   syscall.RawConn
	Reads sync.RWMutex // read-locked during a read of the file

	d      *Domain
	file   *os.File
	closed atomic.Bool
}

var _ rdma.FileSource = (*FileSource)(nil)

// Init makes s the source of a regular file.
//
// Errors: StatusInvalidParameter for any other file; StatusInvalidHandle once the domain
// is closed.
func (s *FileSource) Init(ctx context.Context, d *Domain, f *os.File) error {
	const op = "register file"
	switch {
	case ctx.Err() != nil:
		return d.Canceled(ctx, op, "")
	case f == nil:
		return d.Error(op, "", rdma.StatusInvalidParameter, nil)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		s.Raw, err = f.SyscallConn()
	}
	if err != nil {
		return d.Error(op, f.Name(), rdma.StatusInvalidParameter, err)
	}
	s.d, s.file = d, f
	return d.Add(Files, s, op)
}

// File returns the registered file.
func (s *FileSource) File() *os.File { return s.file }

// Close waits until the file is not being read. Requests for the file whose data is not
// read completely then fail.
func (s *FileSource) Close() error {
	s.closed.Store(true)
	s.Reads.Lock()
	defer s.Reads.Unlock()
	s.d.Remove(Files, s)
	return nil
}

// Begin begins a read of the file. It returns false if the source is closed; otherwise
// the caller calls End.
func (s *FileSource) Begin() bool {
	s.Reads.RLock()
	return s.begun()
}

// TryBegin is Begin for a caller that must not wait: it also returns false while the
// source is being closed.
func (s *FileSource) TryBegin() bool { return s.Reads.TryRLock() && s.begun() }

func (s *FileSource) begun() bool {
	if s.closed.Load() {
		s.Reads.RUnlock()
		return false
	}
	return true
}

// End ends a read of the file.
func (s *FileSource) End() { s.Reads.RUnlock() }

// Check returns the status of a post that names the file, on a queue pair of d.
func (s *FileSource) Check(d *Domain) rdma.Status {
	switch {
	case s == nil || s.d != d:
		return rdma.StatusInvalidParameter
	case s.closed.Load():
		return rdma.StatusAccessViolation
	}
	return rdma.StatusSuccess
}
