package main

/*
#include <sys/stat.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"io/fs"
	"unicode/utf8"
	"unsafe"

	"lwio"
)

// maxLength bounds the memory of an operation, in bytes: no address space of a program is larger.
const maxLength = 1 << 46

// errNoResult is the error of a call without memory for its result.
var errNoResult = invalid("the pointer for the result is NULL")

// memory returns the C memory of an argument as a slice, for an operation at byte offset off. The memory belongs
// to the C program.
//
// Errors: fs.ErrInvalid.
func memory(p unsafe.Pointer, n uint64, off int64) ([]byte, error) {
	switch {
	case off < 0:
		return nil, invalid("the offset is below 0")
	case n > maxLength:
		return nil, invalid("the length is too large")
	case n == 0:
		return nil, nil
	case p == nil:
		return nil, invalid("the pointer to the memory is NULL")
	case uintptr(p)+uintptr(n) < uintptr(p):
		return nil, invalid("the memory wraps around the end of the address space")
	}
	return unsafe.Slice((*byte)(p), int(n)), nil
}

// fail writes the text of err to the memory of the thread and returns the negative errno.
//
// Precondition: err is not nil.
func fail(text *C.char, err error) C.int64_t {
	dst := unsafe.Slice((*byte)(unsafe.Pointer(text)), C.LWIO_TEXT_SIZE)
	s := err.Error()
	if len(s) >= len(dst) {
		s = s[:len(dst)-1]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
	}
	dst[copy(dst, s)] = 0
	return -C.int64_t(errnoOf(err))
}

// result returns 0 for nil, and otherwise the result of fail.
func result(text *C.char, err error) C.int {
	if err == nil {
		return 0
	}
	return C.int(fail(text, err))
}

// caught turns a panic of the call that defers it into -EIO: the C program goes on.
func caught[T C.int | C.int64_t](text *C.char, r *T) {
	if p := recover(); p != nil {
		*r = T(fail(text, fmt.Errorf("lwio: internal error: %v", p)))
	}
}

// partly is the error of a read or write of which n of size bytes are done.
type partly struct {
	n, size int
	err     error
}

func (p *partly) Error() string {
	return fmt.Sprintf("%v (%d of %d bytes are done)", p.err, p.n, p.size)
}
func (p *partly) Unwrap() error { return p.err }

// named returns the client of a handle and a name in its share. The name is copied.
func named(client C.uint64_t, name *C.char) (*lwio.Client, string, error) {
	c, err := object[*lwio.Client](&all, uint64(client))
	if err != nil {
		return nil, "", err
	}
	if name == nil {
		return nil, "", invalid("the name is NULL")
	}
	s := C.GoString(name)
	if s == "" {
		return nil, "", fmt.Errorf("lwio: the name is empty: %w", fs.ErrNotExist)
	}
	return c, s, nil
}

// statOf describes a file for a C program.
func statOf(info fs.FileInfo) C.struct_lwio_stat {
	st := C.struct_lwio_stat{size: C.uint64_t(info.Size()), mode: C.uint32_t(info.Mode().Perm()), mtime_ns: C.int64_t(info.ModTime().UnixNano())}
	if info.IsDir() {
		st.mode |= C.S_IFDIR
	} else {
		st.mode |= C.S_IFREG
	}
	if smb, ok := info.Sys().(*lwio.SMBInfo); ok {
		st.attributes, st.id, st.allocated = C.uint32_t(smb.Attributes), C.uint64_t(smb.ID), C.uint64_t(smb.AllocationSize)
		st.atime_ns, st.ctime_ns, st.btime_ns = C.int64_t(smb.Accessed.UnixNano()), C.int64_t(smb.Changed.UnixNano()), C.int64_t(smb.Created.UnixNano())
	}
	return st
}

// goString copies a string of C; NULL is "".
func goString(s *C.char) string {
	if s == nil {
		return ""
	}
	return C.GoString(s)
}
