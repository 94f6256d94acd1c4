//go:build linux

package shm

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// fileSource is a regular file that writes read their data from.
type fileSource struct {
	softrdma.FileSource
	cached bool // the file system keeps all pages in memory
}

// RegisterFile makes a regular file usable as a source. A write reads the file directly
// into the peer's memory, if that memory can be accessed directly, else into the ring.
func (a *adapter) RegisterFile(ctx context.Context, f *os.File) (rdma.FileSource, error) {
	s := &fileSource{}
	if err := s.Init(ctx, a.Domain, f); err != nil {
		return nil, err
	}
	_ = s.Raw.Control(func(fd uintptr) {
		var fs unix.Statfs_t
		s.cached = unix.Fstatfs(int(fd), &fs) == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC)
	})
	return s, nil
}

// fileWriter carries out writes from files that must not wait for a disk
// (FlagOnlyIfCached). It belongs to the goroutine that has the right to send. While the
// queue is idle, pair belongs to the holder of the initiator queue's lock.
type fileWriter struct {
	t       *sender
	run     fileRun
	pair    filePair
	attempt softrdma.WorkRequest // the request of a write without a slot
}

func (w *fileWriter) init(t *sender) {
	w.t = t
	w.run.place = w.placeRun
	w.pair.place = w.placePair
}

// fileRun is a run of silent writes from one file.
type fileRun struct {
	reqs   []rdma.Request
	done   int
	status rdma.Status
	place  func(fd uintptr) // placeRun
}

// runBytes bounds the bytes of a run, because other goroutines may wait to send.
const runBytes = 64 << 10

// placeFiles copies parts of one file directly into the peer's memory, and returns the
// number of completed writes. If it stops early, StatusDeviceBusy means that the next
// part is not completely in the page cache. StatusPending means that the target of the
// next write cannot be accessed directly now. Precondition: the caller has the right to
// send, and the queue is empty.
func (w *fileWriter) placeFiles(reqs []rdma.Request) (int, rdma.Status) {
	f := reqs[0].File.(*fileSource)
	if !f.Begin() {
		return 0, rdma.StatusAccessViolation
	}
	defer f.End()
	if !w.t.out.OnlySends() {
		return 0, rdma.StatusPending
	}
	run := &w.run
	run.reqs, run.done, run.status = reqs, 0, rdma.StatusSuccess
	if f.Raw.Control(run.place) != nil {
		run.status = rdma.StatusDeviceBusy
	}
	run.reqs = nil
	w.t.c.mappings.release()
	return run.done, run.status
}

// placeRun is the body of placeFiles, called with the descriptor.
func (w *fileWriter) placeRun(fd uintptr) {
	for run := &w.run; run.done < len(run.reqs); run.done++ {
		r := &run.reqs[run.done]
		if r.FileLength == 0 {
			run.status = rdma.StatusPending
			return
		}
		dst := w.t.c.mappings.acquire(r.Remote.Addr, uint32(r.Remote.Token), r.FileLength, ring.SlotWrite)
		if dst == nil {
			run.status = rdma.StatusPending
			return
		}
		if !w.t.data.reader.readAll(fd, r.File.(*fileSource), dst, r.FileOffset) {
			run.status = rdma.StatusDeviceBusy
			return
		}
	}
}

// fileRunLocked returns the number of requests that one run can carry out: silent writes
// from the same file. Precondition: the first request was checked.
func (qp *queuePair) fileRunLocked(reqs []rdma.Request) int {
	const flags = rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess
	n, sum := 0, 0
	for ; n < len(reqs); n++ {
		r := &reqs[n]
		if r.Op != rdma.OpWrite || r.Flags != flags || r.File != reqs[0].File {
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

// postCachedLocked carries out writes from a file at once, if the file's pages are in
// memory and no request precedes them: the first write, and the rest of its run. It
// returns their number. If it returns 0, StatusDeviceBusy means that the first write
// cannot be carried out at once. It releases the lock meanwhile.
func (qp *queuePair) postCachedLocked(reqs []rdma.Request) (int, rdma.Status) {
	q := &qp.Initiator
	qp.commitLocked()
	if c := qp.takeSendingLocked(); c != nil { // earlier requests come first
		q.Unlock()
		c.tx.pump(false, 0)
		q.Lock()
	}
	r := &reqs[0]
	length, status := qp.checkLocked(r)
	if status == rdma.StatusSuccess && (q.Sending || q.Next != q.Requests.Tail || q.Done != q.Next) {
		status = rdma.StatusDeviceBusy
	}
	if status != rdma.StatusSuccess {
		return 0, status
	}
	run := qp.fileRunLocked(reqs)
	q.Sending = true
	files := &qp.conn.Load().tx.files
	q.Unlock()
	n := 0
	if status = rdma.StatusPending; run > 0 {
		n, status = files.placeFiles(reqs[:run])
	}
	if n == 0 && status == rdma.StatusPending {
		defer q.Lock()
		if status = files.post(r, length); status != rdma.StatusSuccess {
			return 0, status
		}
		return 1, status
	}
	q.Lock()
	q.ReleaseSendingLocked() // Post sends requests queued meanwhile
	if n > 0 {
		status = rdma.StatusSuccess // the next call reports the status of the next request
	}
	return n, status
}

// post carries out one write that placeFiles cannot place, and releases the right to
// send.
func (w *fileWriter) post(r *rdma.Request, length int) rdma.Status {
	status := w.send(r, length)
	w.t.pump(false, 0) // pushes the result, and sends requests posted meanwhile
	return status
}

// send carries out the write. Precondition: the caller has the right to send, and the
// queue is empty.
func (w *fileWriter) send(r *rdma.Request, length int) rdma.Status {
	t, qp := w.t, w.t.c.qp
	s := &w.attempt
	s.Set(r, length)
	defer s.Drop()
	t.data.mayWait, t.data.within = false, 0
	defer t.data.reset()
	err := w.place(s)
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
	// The write has no slot: requests that were queued meanwhile come after it.
	qp.Initiator.Lock()
	qp.Initiator.Requests.Head = qp.Initiator.Done
	qp.Initiator.Unlock()
	t.results = append(t.results, rdma.Result{Op: r.Op, Bytes: s.Real, QueuePairContext: qp.Config.Context, ID: r.ID})
	return rdma.StatusSuccess
}

// probe checks that all data is in memory before the first byte is copied into the peer's
// memory, because that copy cannot be undone. If pages are evicted after the check, the
// copy waits for them. A single page needs no check: it is in memory or not.
func (w *fileWriter) probe(s *softrdma.WorkRequest) error {
	page := int64(os.Getpagesize())
	if s.File.(*fileSource).cached || s.FileOffset/page == (s.FileOffset+int64(s.Length)-1)/page {
		return nil
	}
	scratch := &w.t.c.a.p.scratch
	b, ok := scratch.Get().(*[probeSize]byte)
	if !ok {
		b = new([probeSize]byte)
	}
	defer scratch.Put(b)
	d := &w.t.data
	for d.within < s.Length {
		if err := d.readFile(s, b[:min(probeSize, s.Length-d.within)]); err != nil {
			return err
		}
	}
	d.within, s.Real, d.mayWait = 0, 0, true
	return nil
}

// place puts the data into the peer's memory, or as one entry into the ring if it fits.
func (w *fileWriter) place(s *softrdma.WorkRequest) error {
	t := w.t
	immediate := s.Flags&rdma.FlagImmediate != 0
	if s.Length == 0 && !immediate {
		return nil
	}
	if s.Length > 0 && !immediate {
		if err := w.probe(s); err != nil {
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
	return t.copyToRing(s, s.Length)
}
