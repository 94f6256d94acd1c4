//go:build linux

package shm

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// Errors of the data of a request.
var (
	errRegionClosed = errors.New("memory region of a request is closed")
	errWouldBlock   = errors.New("the file's pages are not in memory")
)

// requestData copies the data of the request in progress: into the ring, or directly into
// or out of the peer's memory. It belongs to the goroutine that has the right to send.
type requestData struct {
	fence           *atomic.Uint32
	reader          fileReader
	mayWait         bool // it may wait for the pages of a file
	piece           int  // the piece with the next byte
	within          int  // the offset of the next byte in that piece
	held            regionRef
	current         *softrdma.WorkRequest  // for copyIn and copyOut
	copyIn, copyOut func(mem []byte) error // put and get
}

func (d *requestData) init(fence *atomic.Uint32) {
	d.fence = fence
	d.reader.init()
	d.copyIn, d.copyOut = d.put, d.get
}

// reset prepares for the next request.
func (d *requestData) reset() { d.piece, d.within = 0, 0 }

// fill copies the next bytes of a request into dst.
func (d *requestData) fill(s *softrdma.WorkRequest, dst []byte) error {
	switch {
	case s.File != nil:
		return d.readFile(s, dst)
	case s.Flags&rdma.FlagInline != 0:
		d.within += copy(dst, s.Inline[d.within:])
		return nil
	}
	for len(dst) > 0 {
		p := &s.Pieces[d.piece]
		if !p.Region.Acquire() {
			return errRegionClosed
		}
		n := copy(dst, p.Buf[d.within:])
		p.Region.Release()
		dst = dst[n:]
		if d.within += n; d.within == len(p.Buf) {
			d.piece, d.within = d.piece+1, 0
		}
	}
	return nil
}

// fillBoth is fill for a payload that may wrap around the end of the ring. After an error
// the next attempt begins at the same byte.
func (d *requestData) fillBoth(s *softrdma.WorkRequest, a, b []byte) error {
	piece, within, real := d.piece, d.within, s.Real
	err := d.fill(s, a)
	if err == nil {
		err = d.fill(s, b)
	}
	if err != nil {
		d.piece, d.within, s.Real = piece, within, real
	}
	return err
}

// put places all data of the current request in the peer's memory.
func (d *requestData) put(dst []byte) error {
	s := d.current
	switch {
	case s.File != nil:
		return d.fill(s, dst)
	case s.Flags&rdma.FlagInline != 0:
		softrdma.Place(dst, s.Inline, d.fence)
		return nil
	case len(dst) <= 8 && len(s.Pieces) > 1:
		var word [8]byte
		if err := d.fill(s, word[:len(dst)]); err != nil {
			return err
		}
		softrdma.Place(dst, word[:len(dst)], d.fence)
		return nil
	}
	for i := range s.Pieces {
		p := &s.Pieces[i]
		if !d.held.hold(p.Region) {
			return errRegionClosed
		}
		softrdma.Place(dst[:len(p.Buf)], p.Buf, d.fence)
		d.held.drop()
		dst = dst[len(p.Buf):]
	}
	return nil
}

// get copies the data of the current request, a read, out of the peer's memory.
func (d *requestData) get(src []byte) error {
	pieces := d.current.Pieces
	for i := range pieces {
		p := &pieces[i]
		if !d.held.hold(p.Region) {
			return errSinkClosed()
		}
		softrdma.Place(p.Buf, src[:len(p.Buf)], d.fence)
		d.held.drop()
		src = src[len(p.Buf):]
	}
	return nil
}

// readFile reads the next bytes of a request from its file. Bytes past the end of the
// file, or that cannot be read, are zero. errWouldBlock means that the pages are not in
// memory and the caller may not wait; the next attempt begins at the same byte.
//
// Source: [OP-92i]
func (d *requestData) readFile(s *softrdma.WorkRequest, dst []byte) error {
	f := s.File.(*fileSource)
	if !f.Begin() {
		return fmt.Errorf("file %s: %w", f.File().Name(), os.ErrClosed)
	}
	defer f.End()
	begin, real, here := d.within, s.Real, dst
	for len(here) > 0 {
		n, err := 0, error(nil)
		if s.Real == d.within { // otherwise the file ended before this byte
			n, err = d.reader.read(f, here, s.FileOffset+int64(d.within), d.mayWait)
		}
		switch {
		case errors.Is(err, errWouldBlock):
			d.within, s.Real = begin, real
			return err
		case err != nil && !unreadable(err):
			return fmt.Errorf("read %s: %w", f.File().Name(), err)
		case err != nil, n == 0: // bytes that cannot be read count as missing
			clear(here)
			d.within += len(here)
			return nil
		}
		d.within += n
		s.Real = d.within
		here = here[n:]
	}
	return nil
}

// unreadable reports whether an error concerns the content of the file. An unusable
// descriptor, or unusable memory to read into, is another kind of error.
func unreadable(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && errno != unix.EFAULT
}

// regionRef is a reference to one region at a time. It is kept across copies, and across
// a fault in the peer's memory.
type regionRef struct{ g *softrdma.Region }

// hold takes a reference to g and drops the previous one. It returns false if the region
// is closed.
func (r *regionRef) hold(g *softrdma.Region) bool {
	if g == r.g && g.Open() {
		return true
	}
	if !g.Acquire() {
		return false
	}
	r.drop()
	r.g = g
	return true
}

// drop releases the reference, if there is one.
func (r *regionRef) drop() {
	if r.g != nil {
		r.g.Release()
		r.g = nil
	}
}
