//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// fileSource is a regular file that writes take their data from.
type fileSource struct {
	a      *adapter
	f      *os.File
	raw    syscall.RawConn
	cached bool // all of its pages are in memory, always
	closed atomic.Bool
	mu     sync.RWMutex // held by who reads
}

// RegisterFile makes a regular file usable as a source. A write from it is read
// straight into the peer's memory, if that can be reached directly, else into the
// ring.
func (a *adapter) RegisterFile(ctx context.Context, f *os.File) (rdma.FileSource, error) {
	const op = "register file"
	if ctx.Err() != nil {
		return nil, rdma.CanceledBy(ctx, "shm: "+op, "")
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, opError(op, "", rdma.StatusInvalidParameter, err)
	}
	s := &fileSource{a: a, f: f, raw: raw}
	var st unix.Stat_t
	var fs unix.Statfs_t
	var statErr error
	if err := raw.Control(func(fd uintptr) {
		if statErr = unix.Fstat(int(fd), &st); statErr == nil {
			statErr = unix.Fstatfs(int(fd), &fs)
		}
	}); err != nil || statErr != nil {
		return nil, opError(op, f.Name(), rdma.StatusInvalidParameter, errors.Join(err, statErr))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, opError(op, f.Name(), rdma.StatusInvalidParameter, errors.New("not a regular file"))
	}
	s.cached = fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
	return s, a.Domain.Add(softrdma.Files, s, op)
}

// File is the file that was registered.
func (s *fileSource) File() *os.File { return s.f }

// Close waits until nobody reads the file. Requests that name it and have not
// begun fail.
func (s *fileSource) Close() error {
	s.closed.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.a.Domain.Remove(softrdma.Files, s)
	return nil
}

// readFile reads the next bytes of a request from its file; past the end of the
// file, or where it cannot be read, they are zeros. errWouldBlock says that the
// caller may not wait for what is not in memory; a next attempt begins where this one
// did.
//
// Source: [OP-92i]
func (t *sender) readFile(s *softrdma.WorkRequest, dst []byte) error {
	f := s.File.(*fileSource)
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed.Load() {
		return fmt.Errorf("file %s: %w", f.f.Name(), os.ErrClosed)
	}
	begin, real, here := t.within, s.Real, dst
	for len(here) > 0 {
		n, err := 0, error(nil)
		if s.Real == t.within { // else the file ended before, and that is what counts
			n, err = t.reader.read(f, here, s.FileOffset+int64(t.within), t.slow)
		}
		switch {
		case errors.Is(err, errWouldBlock):
			t.within, s.Real = begin, real
			return err
		case err != nil && !unreadable(err):
			return fmt.Errorf("read %s: %w", f.f.Name(), err)
		case err != nil, n == 0: // what cannot be read counts as not there
			clear(here)
			t.within += len(here)
			return nil
		}
		t.within += n
		s.Real = t.within
		here = here[n:]
	}
	return nil
}

// unreadable tells whether an error is about what the file has, and not that there is no
// file, or no memory to read into.
func unreadable(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && errno != unix.EFAULT
}

// fileRun is the state of placeFiles.
type fileRun struct {
	reqs   []rdma.Request
	done   int
	status rdma.Status
	fn     func(fd uintptr)
}

// placeFiles puts parts of one file straight into their places, and tells how many. Unless
// that is all, StatusDeviceBusy says that the next is not all in the page cache,
// StatusPending that its place cannot be reached now. The caller holds the baton of an
// empty queue.
func (t *sender) placeFiles(reqs []rdma.Request) (int, rdma.Status) {
	f := reqs[0].File.(*fileSource)
	f.mu.RLock()
	defer f.mu.RUnlock()
	switch {
	case f.closed.Load():
		return 0, rdma.StatusAccessViolation
	case !t.out.OnlySends():
		return 0, rdma.StatusPending
	}
	run := &t.run
	run.reqs, run.done, run.status = reqs, 0, rdma.StatusSuccess
	if f.raw.Control(run.fn) != nil {
		run.status = rdma.StatusDeviceBusy
	}
	run.reqs = nil
	t.c.letGo()
	return run.done, run.status
}

// placeEach is the part of placeFiles that has the descriptor.
func (t *sender) placeEach(fd uintptr) {
	for run := &t.run; run.done < len(run.reqs); run.done++ {
		r := &run.reqs[run.done]
		if r.FileLength == 0 {
			run.status = rdma.StatusPending
			return
		}
		dst := t.c.hold(r.Remote.Addr, uint32(r.Remote.Token), r.FileLength, ring.SlotWrite)
		if dst == nil {
			run.status = rdma.StatusPending
			return
		}
		if !t.reader.readAll(fd, r.File.(*fileSource), dst, r.FileOffset) {
			run.status = rdma.StatusDeviceBusy
			return
		}
	}
}

// runBytes bounds what is written from a file while others wait for their turn.
const runBytes = 64 << 10

// fileRunLocked is how many of the requests, the first of which was checked, are silent
// writes of the same file that can be done one after another.
func (qp *queuePair) fileRunLocked(reqs []rdma.Request) int {
	const way = rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess
	n, sum := 0, 0
	for ; n < len(reqs); n++ {
		r := &reqs[n]
		if r.Op != rdma.OpWrite || r.Flags != way || r.File != reqs[0].File {
			break
		}
		if sum += r.FileLength; n > 0 && sum > runBytes {
			break
		}
		if _, status := qp.checkDataLocked(r); status != rdma.StatusSuccess {
			break
		}
	}
	return n
}

// postCachedLocked does writes from a file at once, if the file's pages are in memory
// and nothing is before them: the first, and those behind it that can be done along with
// it. It tells how many; if that is none, StatusDeviceBusy says that the first cannot be
// done so. It lets go of the lock.
func (qp *queuePair) postCachedLocked(reqs []rdma.Request) (int, rdma.Status) {
	qp.commitLocked()
	if c := qp.takeSendingLocked(); c != nil { // what was posted before comes first
		qp.Initiator.Unlock()
		c.tx.pump(false, 0)
		qp.Initiator.Lock()
	}
	r := &reqs[0]
	length, status := qp.checkLocked(r)
	if status == rdma.StatusSuccess && (qp.Initiator.Sending || qp.Initiator.Next != qp.Initiator.Requests.Tail || qp.Initiator.Done != qp.Initiator.Next) {
		status = rdma.StatusDeviceBusy
	}
	if status != rdma.StatusSuccess {
		return 0, status
	}
	run := qp.fileRunLocked(reqs)
	qp.Initiator.Sending = true
	t := &qp.conn.Load().tx
	qp.Initiator.Unlock()
	n := 0
	if status = rdma.StatusPending; run > 0 {
		n, status = t.placeFiles(reqs[:run])
	}
	if n == 0 && status == rdma.StatusPending {
		defer qp.Initiator.Lock()
		if status = t.postCached(r, length); status != rdma.StatusSuccess {
			return 0, status
		}
		return 1, status
	}
	qp.Initiator.Lock()
	qp.Initiator.ReleaseSendingLocked() // Post sends what others have queued meanwhile
	if n > 0 {
		status = rdma.StatusSuccess // the next call tells what is wrong with the next
	}
	return n, status
}

// postCached is the long way of a write from a file that must not wait. It gives the
// baton back.
func (t *sender) postCached(r *rdma.Request, length int) rdma.Status {
	status := t.sendCached(r, length)
	t.pump(false, 0) // for the result, and what others have posted meanwhile
	return status
}

// sendCached does the write. The caller holds the baton of an empty queue.
func (t *sender) sendCached(r *rdma.Request, length int) rdma.Status {
	qp := t.c.qp
	s := &t.attempt
	s.Set(r, length)
	defer s.Drop()
	t.slow, t.within = false, 0
	defer func() { t.within = 0 }()
	err := t.placeCached(s)
	switch {
	case errors.Is(err, errWouldBlock):
		return rdma.StatusDeviceBusy
	case err != nil:
		t.fail(err)
		return rdma.StatusConnectionInvalid
	case r.Flags&rdma.FlagSilentSuccess == 0:
	case s.Real < length:
		return rdma.StatusDeviceBusy
	default:
		return rdma.StatusSuccess
	}
	// It has no slot: what others have queued meanwhile comes after it.
	qp.Initiator.Lock()
	qp.Initiator.Requests.Head = qp.Initiator.Done
	qp.Initiator.Unlock()
	t.results = append(t.results, rdma.Result{Op: r.Op, Bytes: s.Real, QueuePairContext: qp.Config.Context, ID: r.ID})
	return rdma.StatusSuccess
}

// probe looks whether all of the data is in memory, before the first byte of it is
// in the peer's, where it would leave a trace. What goes away after that is waited for.
// A single page is there or not: nothing needs to be known before it is read.
func (t *sender) probe(s *softrdma.WorkRequest) error {
	page := int64(os.Getpagesize())
	if s.File.(*fileSource).cached || s.FileOffset/page == (s.FileOffset+int64(s.Length)-1)/page {
		return nil
	}
	b, ok := t.c.a.p.scratch.Get().(*[probeSize]byte)
	if !ok {
		b = new([probeSize]byte)
	}
	defer t.c.a.p.scratch.Put(b)
	for t.within < s.Length {
		if err := t.readFile(s, b[:min(probeSize, s.Length-t.within)]); err != nil {
			return err
		}
	}
	t.within, s.Real, t.slow = 0, 0, true
	return nil
}

// placeCached puts the data into its place, or into the ring if it fits there as
// one entry.
func (t *sender) placeCached(s *softrdma.WorkRequest) error {
	immediate := s.Flags&rdma.FlagImmediate != 0
	if s.Length == 0 && !immediate {
		return nil
	}
	if s.Length > 0 && !immediate {
		if err := t.probe(s); err != nil {
			return err
		}
		if done, err := t.direct(s); done || err != nil {
			return err
		}
	}
	need, err := t.lacks(min(s.Length, t.chunk))
	switch {
	case err != nil:
		return err
	case need > 0 || s.Length > t.chunk:
		return errWouldBlock
	}
	return t.copyOut(s, s.Length)
}
