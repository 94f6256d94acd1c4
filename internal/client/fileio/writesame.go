package fileio

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/wire"
	"lwio/rdma"
)

// Unbuffered is the flag of OpenFile that allows WriteSame, exported as lwio.Unbuffered.
const Unbuffered = 0x20000000 // a value that no flag of package os has

const (
	// sameRun bounds one operation, in bytes.
	sameRun = 1 << 30
	// sameCopy is how many bytes are written at a time where writes cannot be collapsed.
	sameCopy = 256 << 10
)

// WriteSame fills n bytes of the file from byte offset off with copies of p, by operations of at most
// sameRun bytes. It returns the number of bytes from the beginning that are certainly written.
func (f *File) WriteSame(ctx context.Context, p []byte, off, n int64) (int64, error) {
	done, err := f.writeSame(ctx, p, off, n)
	if err != nil {
		return done, f.failed("write", err)
	}
	return done, nil
}

func (f *File) writeSame(ctx context.Context, p []byte, off, n int64) (int64, error) {
	page, err := f.samePage(p, off, n)
	if err != nil {
		return 0, err
	}
	if err := f.check(ctx, 0, 0); err != nil || n == 0 {
		return 0, err
	}
	done := int64(0)
	for done < n && err == nil {
		var m int
		m, err = f.perform(ctx, &arguments{p: page, size: int(min(n-done, sameRun)), off: off + done, write: true, same: true})
		done += int64(m)
	}
	return done, err
}

// samePage checks the arguments of WriteSame, and returns p as often as it takes to fill a page.
func (f *File) samePage(p []byte, off, n int64) ([]byte, error) {
	switch {
	case f.options&smbshare.OptionUnbuffered == 0:
		return nil, fmt.Errorf("%w: WriteSame of a file that was not opened Unbuffered", fs.ErrInvalid)
	case len(p) == 0 || len(p) > rdmaconn.ProtocolPage || len(p)&(len(p)-1) != 0:
		return nil, fmt.Errorf("%w: WriteSame of %d bytes, which is not a power of two up to %d", fs.ErrInvalid, len(p), rdmaconn.ProtocolPage)
	case off < 0 || n < 0 || off > math.MaxInt64-n:
		return nil, fmt.Errorf("%w: WriteSame of %d bytes at offset %d", fs.ErrInvalid, n, off)
	}
	return bytes.Repeat(p, rdmaconn.ProtocolPage/len(p)), nil
}

// sameHeader is the header of a collapsed VEC_WRITE of n bytes.
func sameHeader(fid uint16, off int64, n int) wire.Header {
	return wire.NewCollapse(fid, uint64(off), uint32(n), rdmaconn.ProtocolPage)
}

// pageRun is a page repeated up to sameCopy bytes. It is the data of a WriteSame over SMB, and to
// servers that repeat no pages. All parts of the operation share one run, and one registration of it
// for each connection. It belongs to the goroutine of the queue; transfers over SMB read its bytes,
// which do not change. A nil pageRun has no registrations.
type pageRun struct {
	bytes   []byte
	regions []runRegion
}

// runRegion is the registration of a run on a connection.
type runRegion struct {
	conn *rdmaconn.Conn
	mr   rdma.MemoryRegion
}

// fill makes o a plain write of its page repeated.
func (o *operation) fill() {
	w := o
	if o.of != nil {
		w = o.of
	}
	if w.run == nil {
		w.run = &pageRun{bytes: bytes.Repeat(w.p, (min(w.size, sameCopy)+rdmaconn.ProtocolPage-1)/rdmaconn.ProtocolPage)}
	}
	o.plain = w.run
}

// regionOn returns the registration on cn, and makes it the first time.
func (r *pageRun) regionOn(ctx context.Context, cn *rdmaconn.Conn) (rdma.MemoryRegion, error) {
	for _, g := range r.regions {
		if g.conn == cn {
			return g.mr, nil
		}
	}
	mr, err := cn.Adapter.RegisterMemory(ctx, r.bytes, 0)
	if err == nil {
		r.regions = append(r.regions, runRegion{cn, mr})
	}
	return mr, err
}

// isOn reports whether the run is registered on cn.
func (r *pageRun) isOn(cn *rdmaconn.Conn) bool {
	return r != nil && slices.ContainsFunc(r.regions, func(g runRegion) bool { return g.conn == cn })
}

// closeOn ends the registration on cn. No request may use it any more.
func (r *pageRun) closeOn(cn *rdmaconn.Conn) {
	if r == nil {
		return
	}
	r.regions = slices.DeleteFunc(r.regions, func(g runRegion) bool {
		if g.conn == cn {
			g.mr.Close()
		}
		return g.conn == cn
	})
}

// Close ends all registrations.
func (r *pageRun) Close() {
	if r == nil {
		return
	}
	for _, g := range r.regions {
		g.mr.Close()
	}
	r.regions = nil
}
