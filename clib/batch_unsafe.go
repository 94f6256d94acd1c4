package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"os"
	"unsafe"

	"lwio"
)

// maxDepth bounds the operations of a batch.
const maxDepth = 65536

//export lwioGoBatchNew
func lwioGoBatchNew(client C.uint64_t, depth, flags C.int, out *C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, err := object[*lwio.Client](&all, uint64(client))
	switch {
	case err != nil:
	case out == nil:
		err = errNoResult
	case depth < 1 || depth > maxDepth || flags&^C.LWIO_BATCH_EVENTFD != 0:
		err = invalid("the depth of the batch is not 1 to 65536, or a flag is not known")
	}
	if err != nil {
		return result(text, err)
	}
	var b batch
	if flags&C.LWIO_BATCH_EVENTFD == 0 {
		b = newDirectBatch(c, int(depth))
	} else if b, err = newEventBatch(c, int(depth)); err != nil {
		return result(text, err)
	}
	*out = C.uint64_t(all.add(b))
	return 0
}

// operationOf checks an operation of C and turns it into one of Go.
func operationOf(o *C.struct_lwio_op) operation {
	op := operation{tag: uint64(o.tag), off: int64(o.off), write: o.kind == C.LWIO_OP_WRITE}
	if o.kind != C.LWIO_OP_READ && o.kind != C.LWIO_OP_WRITE || o.reserved != 0 {
		op.err = invalid("the kind of the operation is not known, or reserved is not 0")
		return op
	}
	op.file, op.p, op.err = fileOf(o.file, o.buf, o.len, o.off)
	return op
}

//export lwioGoBatchSubmit
func lwioGoBatchSubmit(handle C.uint64_t, ops *C.struct_lwio_op, n C.int, text *C.char) (r C.int) {
	defer caught(text, &r)
	b, err := object[batch](&all, uint64(handle))
	if err == nil && (n < 0 || n > 0 && ops == nil) {
		err = invalid("the number of operations is below 0, or the list is NULL")
	}
	if err != nil {
		return result(text, err)
	}
	list := unsafe.Slice(ops, int(n))
	taken, err := b.submit(len(list), func(i int) operation { return operationOf(&list[i]) })
	if taken == 0 && err == nil && n > 0 {
		err = errFull
	}
	if taken == 0 && err != nil {
		return result(text, err)
	}
	return C.int(taken)
}

//export lwioGoBatchReap
func lwioGoBatchReap(handle C.uint64_t, out *C.struct_lwio_completion, limit, least C.int, timeout C.int64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	b, err := object[batch](&all, uint64(handle))
	if err == nil && (limit < 1 || least < 0 || least > limit || out == nil) {
		err = invalid("max is below 1, min is not 0 to max, or the list is NULL")
	}
	if err != nil {
		return result(text, err)
	}
	ctx, cancel := within(int64(timeout))
	defer cancel()
	list := unsafe.Slice(out, int(limit))
	n, err := b.reap(ctx, int(limit), int(least), timeout != 0, func(i int, d lwio.Completion) {
		list[i] = C.struct_lwio_completion{tag: C.uint64_t(d.Tag), result: C.int64_t(d.N), done: C.uint64_t(d.N)}
		if d.Err != nil && !errors.Is(d.Err, io.EOF) {
			list[i].result = fail(text, d.Err)
		}
	})
	if n > 0 || err == nil || timeout == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return C.int(n)
	}
	return result(text, err)
}

//export lwioGoBatchEventfd
func lwioGoBatchEventfd(handle C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	b, err := object[batch](&all, uint64(handle))
	if err != nil {
		return result(text, err)
	}
	fd, err := b.eventfd()
	if err != nil {
		return result(text, err)
	}
	return C.int(fd)
}

//export lwioGoBatchClose
func lwioGoBatchClose(handle C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	b, err := object[batch](&all, uint64(handle))
	if err == nil {
		if err = b.close(); err == nil {
			_, err = remove[batch](&all, uint64(handle))
		}
	}
	return result(text, err)
}

//export lwioGoBufferNew
func lwioGoBufferNew(client C.uint64_t, size C.size_t, out *C.uint64_t, data *unsafe.Pointer, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, err := object[*lwio.Client](&all, uint64(client))
	switch {
	case err != nil:
	case out == nil || data == nil:
		err = errNoResult
	case size < 1 || size > 1<<30:
		err = invalid("the size of the buffer is not 1 to 2^30 bytes")
	}
	if err != nil {
		return result(text, err)
	}
	b, err := c.Alloc(context.Background(), int(size))
	if err != nil {
		return result(text, err)
	}
	*data = unsafe.Pointer(unsafe.SliceData(b.Bytes())) // mapped outside the Go heap
	*out = C.uint64_t(all.add(b))
	return 0
}

//export lwioGoBufferBusy
func lwioGoBufferBusy(buffer C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	b, err := object[*lwio.Buffer](&all, uint64(buffer))
	if err != nil {
		return result(text, err)
	}
	if b.Busy() {
		return 1
	}
	return 0
}

//export lwioGoBufferFree
func lwioGoBufferFree(buffer C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	b, err := remove[*lwio.Buffer](&all, uint64(buffer))
	if err == nil {
		err = b.Close()
	}
	return result(text, err)
}
