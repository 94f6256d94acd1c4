package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
	"unsafe"

	"lwio"
)

// maxIovecs bounds the segments of one call, as IOV_MAX of Linux.
const maxIovecs = 1024

// fileOf returns the file of a handle and the memory of an argument.
func fileOf(file C.uint64_t, buf unsafe.Pointer, n C.uint64_t, off C.int64_t) (*lwio.File, []byte, error) {
	f, err := object[*lwio.File](&all, uint64(file))
	if err != nil {
		return nil, nil, err
	}
	p, err := memory(buf, uint64(n), int64(off))
	return f, p, err
}

// transferred is the result of a read or write of n of size bytes.
func transferred(text *C.char, n, size int, err error) C.int64_t {
	if err == nil || errors.Is(err, io.EOF) {
		return C.int64_t(n)
	}
	if n > 0 {
		err = &partly{n, size, err}
	}
	return fail(text, err)
}

//export lwioGoPread
func lwioGoPread(file C.uint64_t, buf unsafe.Pointer, n C.size_t, off C.int64_t, text *C.char) (r C.int64_t) {
	defer caught(text, &r)
	f, p, err := fileOf(file, buf, C.uint64_t(n), off)
	if err != nil {
		return fail(text, err)
	}
	done, err := f.ReadAt(p, int64(off))
	return transferred(text, done, len(p), err)
}

//export lwioGoPwrite
func lwioGoPwrite(file C.uint64_t, buf unsafe.Pointer, n C.size_t, off C.int64_t, text *C.char) (r C.int64_t) {
	defer caught(text, &r)
	f, p, err := fileOf(file, buf, C.uint64_t(n), off)
	if err != nil {
		return fail(text, err)
	}
	done, err := f.WriteAt(p, int64(off))
	return transferred(text, done, len(p), err)
}

// segments returns the memory of a list of segments, and the number of bytes.
func segments(iov *C.struct_iovec, count C.int, off C.int64_t) (segs [][]byte, size int, err error) {
	if count < 0 || count > maxIovecs || count > 0 && iov == nil {
		return nil, 0, invalid("the number of segments is not 0 to 1024, or there is no list")
	}
	for _, v := range unsafe.Slice(iov, int(count)) {
		p, err := memory(v.iov_base, uint64(v.iov_len), int64(off))
		if err != nil {
			return nil, 0, err
		}
		if size += len(p); size > maxLength {
			return nil, 0, invalid("the segments are too long")
		}
		segs = append(segs, p)
	}
	return segs, size, nil
}

//export lwioGoPreadv
func lwioGoPreadv(file C.uint64_t, iov *C.struct_iovec, count C.int, off C.int64_t, text *C.char) (r C.int64_t) {
	defer caught(text, &r)
	return vectored(file, iov, count, off, text, (*lwio.File).ReadVec)
}

//export lwioGoPwritev
func lwioGoPwritev(file C.uint64_t, iov *C.struct_iovec, count C.int, off C.int64_t, text *C.char) (r C.int64_t) {
	defer caught(text, &r)
	return vectored(file, iov, count, off, text, (*lwio.File).WriteVec)
}

// vectored moves the memory of a list of segments.
func vectored(
	file C.uint64_t, iov *C.struct_iovec, count C.int, off C.int64_t, text *C.char,
	move func(*lwio.File, context.Context, [][]byte, int64) (int, error),
) C.int64_t {
	f, _, err := fileOf(file, nil, 0, off)
	if err != nil {
		return fail(text, err)
	}
	segs, size, err := segments(iov, count, off)
	if err != nil {
		return fail(text, err)
	}
	done, err := move(f, context.Background(), segs, int64(off))
	return transferred(text, done, size, err)
}

// openFlags translates the flags of open(2). Flags without a meaning for a file of a share are ignored.
func openFlags(flags int) (int, error) {
	const ignored = syscall.O_CLOEXEC | syscall.O_NOCTTY | syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_LARGEFILE
	const same = syscall.O_ACCMODE | syscall.O_CREAT | syscall.O_EXCL | syscall.O_TRUNC | syscall.O_APPEND
	known := ignored | same | syscall.O_SYNC | syscall.O_DSYNC | syscall.O_DIRECT
	if flags&^known != 0 || flags&syscall.O_ACCMODE == syscall.O_ACCMODE {
		return 0, invalid("a flag of open is not known")
	}
	goFlags := flags & same
	if flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0 {
		goFlags |= syscall.O_SYNC
	}
	if flags&syscall.O_DIRECT != 0 {
		goFlags |= lwio.Unbuffered
	}
	return goFlags, nil
}

//export lwioGoOpen
func lwioGoOpen(client C.uint64_t, name *C.char, flags C.int, out *C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, path, err := named(client, name)
	if err != nil {
		return C.int(fail(text, err))
	}
	if out == nil {
		return C.int(fail(text, errNoResult))
	}
	goFlags, err := openFlags(int(flags))
	if err != nil {
		return C.int(fail(text, err))
	}
	f, err := c.OpenFile(context.Background(), path, goFlags, 0o666)
	if err != nil {
		return C.int(fail(text, err))
	}
	*out = C.uint64_t(all.add(f))
	return 0
}

//export lwioGoClose
func lwioGoClose(file C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	f, err := remove[*lwio.File](&all, uint64(file))
	if err == nil {
		err = f.Close()
	}
	return result(text, err)
}

//export lwioGoSync
func lwioGoSync(file C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	f, err := object[*lwio.File](&all, uint64(file))
	if err == nil {
		err = f.Sync(context.Background())
	}
	return result(text, err)
}

//export lwioGoTruncate
func lwioGoTruncate(file C.uint64_t, size C.int64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	f, err := object[*lwio.File](&all, uint64(file))
	if err == nil && size < 0 {
		err = invalid("the size is below 0")
	}
	if err == nil {
		err = f.Truncate(context.Background(), int64(size))
	}
	return result(text, err)
}

//export lwioGoFstat
func lwioGoFstat(file C.uint64_t, st *C.struct_lwio_stat, text *C.char) (r C.int) {
	defer caught(text, &r)
	f, err := object[*lwio.File](&all, uint64(file))
	if err == nil && st == nil {
		err = errNoResult
	}
	if err != nil {
		return result(text, err)
	}
	info, err := f.Stat(context.Background())
	if err == nil {
		*st = statOf(info)
	}
	return result(text, err)
}

//export lwioGoLock
func lwioGoLock(file C.uint64_t, off, n C.uint64_t, flags C.int, timeout C.int64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	f, err := object[*lwio.File](&all, uint64(file))
	if err == nil && flags&^C.LWIO_LOCK_SHARED != 0 {
		err = invalid("a flag of the lock is not known")
	}
	if err != nil {
		return result(text, err)
	}
	mode := lwio.LockExclusive
	if flags&C.LWIO_LOCK_SHARED != 0 {
		mode = lwio.LockShared
	}
	area := lwio.Range{Off: uint64(off), Len: uint64(n)}
	if timeout == 0 {
		return result(text, f.TryLock(context.Background(), area, mode))
	}
	ctx, cancel := within(int64(timeout))
	defer cancel()
	return result(text, f.Lock(ctx, area, mode))
}

//export lwioGoUnlock
func lwioGoUnlock(file C.uint64_t, off, n C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	f, err := object[*lwio.File](&all, uint64(file))
	if err == nil {
		err = f.Unlock(context.Background(), lwio.Range{Off: uint64(off), Len: uint64(n)})
	}
	return result(text, err)
}

// within returns a context of so many milliseconds, without an end below 0.
func within(milliseconds int64) (context.Context, context.CancelFunc) {
	if milliseconds < 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), duration(milliseconds))
}

// duration returns so many milliseconds, a century at most.
func duration(milliseconds int64) time.Duration {
	const century = 100 * 365 * 24 * 3600 * 1000
	return time.Duration(max(min(milliseconds, century), -1)) * time.Millisecond
}
