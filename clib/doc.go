// Command clib is liblwio, the client library of LWIO for programs in C. It is built as a shared and as a
// static library:
//
//	go run ./build -prefix /usr/local
//
// lwio.h is its interface, lwio.3 the manual, and docs/use/c.md the introduction.
//
// # Structure
//
// shim.c has the functions of lwio.h. A function checks that the process is not a forked child, clears the
// text of the thread's last failure, and calls its counterpart in Go, whose name begins with lwioGo. The
// files *_unsafe.go have these: they check the arguments, turn handles into objects and C memory into slices,
// and call package lwio. Only the names of lwio.map are exported from the shared library.
//
// No memory of Go is passed to C. Go keeps the addresses of C memory beyond a call only for the operations
// of a batch, until their completion; memory that C code reads after a call is allocated by malloc, or is
// a registered buffer outside the Go heap.
package main

func main() {}
