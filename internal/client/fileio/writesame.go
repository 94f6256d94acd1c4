package fileio

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"

	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/wire"
)

// Unbuffered is lwio.Unbuffered.
const Unbuffered = 0x20000000 // a value that no flag of package os has

const (
	// sameRun bounds one operation, in bytes.
	sameRun = 1 << 30
	// sameCopy is how many bytes are written at a time where writes cannot be collapsed.
	sameCopy = 256 << 10
)

// WriteSame is that of lwio.File.
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
