package lwio

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"

	"lwio/internal/wire"
)

// Unbuffered is a flag for OpenFile, beside those of package os: the server is asked
// not to cache the file, which WriteSame needs. Servers may then insist on offsets and
// sizes that are whole sectors; this project's does not, but for the last segment of
// ReadVec, a multiple of 512 bytes.
//
// Source: [LWIO §Vectored Write], [OP-51], [OP-82]
const Unbuffered = 0x20000000 // a value that no flag of package os has

const (
	// samePages bounds the pages of one collapsed write: their number has 16 bits.
	samePages = math.MaxUint16
	// sameRun bounds one operation, in bytes.
	sameRun = 1 << 30
	// sameCopy is how many bytes are written at a time where writes cannot be collapsed.
	sameCopy = 256 << 10
)

// WriteSame writes p over and over, from byte offset off on until n bytes are written;
// the last time may be cut. p has 1 to 4096 bytes, a power of two. The file must have
// been opened Unbuffered. Over RDMA a message carries one page, whatever n is, and the
// server repeats it; over SMB alone, or to a server that cannot, all bytes are sent.
//
// It returns how many bytes from the beginning are written for certain.
//
// Errors: as WriteAtContext; fs.ErrInvalid for another size of p, and for a file that
// was not opened Unbuffered.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-75], [OP-77], [OP-112]
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

// samePage checks what is to be written, and returns p as often as it takes to fill a page.
func (f *File) samePage(p []byte, off, n int64) ([]byte, error) {
	switch {
	case f.options&optionUnbuffered == 0:
		return nil, fmt.Errorf("%w: WriteSame of a file that was not opened Unbuffered", fs.ErrInvalid)
	case len(p) == 0 || len(p) > protocolPage || len(p)&(len(p)-1) != 0:
		return nil, fmt.Errorf("%w: WriteSame of %d bytes, which is not a power of two up to %d", fs.ErrInvalid, len(p), protocolPage)
	case off < 0 || n < 0 || off > math.MaxInt64-n:
		return nil, fmt.Errorf("%w: WriteSame of %d bytes at offset %d", fs.ErrInvalid, n, off)
	}
	return bytes.Repeat(p, protocolPage/len(p)), nil
}

// sameHeader is the header of a collapsed VEC_WRITE of n bytes.
func sameHeader(fid uint16, off int64, n int) wire.Header {
	return wire.NewCollapse(fid, uint64(off), uint32(n), protocolPage)
}

// maxSame is the most that a collapsed write may have: whole pages, so that the next one
// goes on with the page's beginning. 0 says that this server takes none.
//
// Source: [LWIO §Vectored Write], [OP-76], [OP-78], [OP-79]
func maxSame(p *wire.AuthParams, maxWrite int) int {
	if !wire.PagesDivide(protocolPage, p.PageSize) || maxWrite < protocolPage {
		return 0
	}
	return protocolPage * int(min(p.MaxRdmaWindowSize/protocolPage, samePages))
}
