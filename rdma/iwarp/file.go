package iwarp

import (
	"context"
	"errors"
	"os"

	"lwio/internal/host"
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// errNotCached reports that bytes of a file are not in memory.
var errNotCached = errors.New("not in memory")

// fileError is the failure of a request's file.
type fileError struct{ err error }

func (e *fileError) Error() string { return "file source: " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// RegisterFile makes a regular file usable as the source of writes.
func (a *adapter) RegisterFile(ctx context.Context, f *os.File) (rdma.FileSource, error) {
	s := &softrdma.FileSource{}
	return s, s.Init(ctx, a.Domain, f)
}

// fileReader reads files for one goroutine at a time.
type fileReader struct {
	buf []byte
	off int64
	n   int
	err error
	fn  func(fd uintptr)
}

func (r *fileReader) init() {
	r.fn = func(fd uintptr) { r.n, r.err = preadCached(int(fd), r.buf, r.off) }
}

// read fills buf from the file and returns the number of bytes. It stops at the end of
// the file, and at a byte that cannot be read: a program that reads the file gets the
// error itself. Without mayBlock it does not wait for a disk and returns errNotCached
// instead.
func (r *fileReader) read(s *softrdma.FileSource, buf []byte, off int64, mayBlock bool) (int, error) {
	if !s.Begin() {
		return 0, errRegionClosed
	}
	defer s.End()
	if mayBlock {
		n, err := s.File().ReadAt(buf, off)
		if errors.Is(err, os.ErrClosed) {
			return 0, &fileError{err}
		}
		return n, nil
	}
	for n := 0; ; {
		r.buf, r.off = buf[n:], off+int64(n)
		err := s.Raw.Control(r.fn)
		r.buf = nil
		switch {
		case err != nil:
			return 0, &fileError{err}
		case errors.Is(r.err, errNotCached):
			return 0, errNotCached
		case r.err != nil:
			return n, nil
		}
		if n += r.n; r.n == 0 || n == len(buf) {
			return n, nil
		}
	}
}

// cached reports whether a part of a file is in memory now. With whole set, the file must
// also contain the whole part. It reads the file only if the kernel does not report that
// all pages are there.
func (r *fileReader) cached(s *softrdma.FileSource, off int64, n int, whole bool) bool {
	if all, known := host.PagesCached(s.File(), off, n); all && known {
		info, err := s.File().Stat()
		return !whole || err == nil && info.Size() >= off+int64(n)
	}
	b := readBuffers.Get().(*[readBufferSize]byte)
	defer readBuffers.Put(b)
	for n > 0 {
		got, err := r.read(s, b[:min(n, len(b))], off, false)
		if err != nil {
			return false
		}
		if got == 0 {
			return !whole // past the end
		}
		n, off = n-got, off+int64(got)
	}
	return true
}

// checkFile checks the file of a write. Precondition: the range was checked.
func (qp *queuePair) checkFile(r *rdma.Request) rdma.Status {
	s, _ := r.File.(*softrdma.FileSource)
	status := s.Check(qp.Domain)
	if status == rdma.StatusSuccess && r.Flags&rdma.FlagOnlyIfCached != 0 &&
		!qp.probe.cached(s, r.FileOffset, r.FileLength, r.Flags&rdma.FlagSilentSuccess != 0) {
		return rdma.StatusDeviceBusy
	}
	return status
}

// fileData reads the next n bytes of a request's file into the batch. Beyond the end of
// the file the bytes are zero. It returns nil if there is no space, or if reading would
// block and must not.
//
// Source: [OP-92i]
func (t *framer) fileData(r *softrdma.WorkRequest, n int) ([]byte, error) {
	b := t.b
	if b.file == nil {
		b.file = readBuffers.Get().(*[readBufferSize]byte)
	}
	if readBufferSize-b.read < n {
		return nil, nil
	}
	data := b.file[b.read : b.read+n : b.read+n]
	if r.Real < t.offset { // the file ended before; its length counts as fixed for this request
		clear(data)
		b.read += n
		return data, nil
	}
	if t.mayBlock {
		t.regions.flush() // it may wait for a disk
	}
	got, err := t.files.read(r.File.(*softrdma.FileSource), data, r.FileOffset+int64(t.offset), t.mayBlock)
	if errors.Is(err, errNotCached) {
		t.wouldBlock = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	clear(data[got:])
	b.read += n
	r.Real += got
	return data, nil
}
