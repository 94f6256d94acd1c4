package main

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"context"
	"io/fs"
	"sync"
	"unsafe"
)

// directory is the listing of a directory. Its names are in one block of C memory, which outlives the calls of
// readdir and ends with closedir.
type directory struct {
	mu      sync.Mutex
	entries []fs.FileInfo  // not returned yet
	names   unsafe.Pointer // NUL-terminated, one after another; nil after closedir
	at      uintptr        // offset of the name of the first entry in names
}

// newDirectory copies the names of a listing to C memory.
func newDirectory(list []fs.DirEntry) (*directory, error) {
	d := &directory{}
	size := 1
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		d.entries = append(d.entries, info)
		size += len(e.Name()) + 1
	}
	d.names = C.malloc(C.size_t(size)) // which does not return NULL to Go
	block := unsafe.Slice((*byte)(d.names), size)
	for _, e := range list {
		n := copy(block, e.Name())
		block[n] = 0
		block = block[n+1:]
	}
	return d, nil
}

// read copies the next entries.
//
// Errors: syscall.EBADF after closedir.
func (d *directory) read(out []C.struct_lwio_dirent) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		return 0, badHandle{}
	}
	n := min(len(out), len(d.entries))
	for i, info := range d.entries[:n] {
		out[i].name = (*C.char)(unsafe.Add(d.names, d.at))
		out[i].stat = statOf(info)
		d.at += uintptr(len(info.Name())) + 1
	}
	d.entries = d.entries[n:]
	return n, nil
}

// free frees the names.
func (d *directory) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	C.free(d.names)
	d.names = nil
}

//export lwioGoOpendir
func lwioGoOpendir(client C.uint64_t, name *C.char, out *C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, path, err := named(client, name)
	if err == nil && out == nil {
		err = errNoResult
	}
	if err != nil {
		return result(text, err)
	}
	list, err := c.ReadDir(context.Background(), path)
	if err != nil {
		return result(text, err)
	}
	d, err := newDirectory(list)
	if err != nil {
		return result(text, err)
	}
	*out = C.uint64_t(all.add(d))
	return 0
}

//export lwioGoReaddir
func lwioGoReaddir(dir C.uint64_t, entries *C.struct_lwio_dirent, n C.int, text *C.char) (r C.int) {
	defer caught(text, &r)
	d, err := object[*directory](&all, uint64(dir))
	if err == nil && (n < 1 || entries == nil) {
		err = invalid("the number of entries is below 1, or the list is NULL")
	}
	if err != nil {
		return result(text, err)
	}
	got, err := d.read(unsafe.Slice(entries, int(n)))
	if err != nil {
		return result(text, err)
	}
	return C.int(got)
}

//export lwioGoClosedir
func lwioGoClosedir(dir C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	d, err := remove[*directory](&all, uint64(dir))
	if err == nil {
		d.free()
	}
	return result(text, err)
}
