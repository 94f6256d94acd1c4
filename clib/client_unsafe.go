package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"lwio"
)

// headsInFlight bounds the files that one lwio_read_heads reads at a time.
const headsInFlight = 32

// configOf returns the configuration of lwio_dial.
func configOf(o *C.struct_lwio_options) (*lwio.Config, error) {
	cfg := &lwio.Config{}
	if o == nil {
		return cfg, nil
	}
	if o.size != C.sizeof_struct_lwio_options || o.reserved != 0 {
		return nil, invalid("size of struct lwio_options is not sizeof(struct lwio_options), or reserved is not 0")
	}
	cfg.User, cfg.Password, cfg.Domain, cfg.AppInstance = goString(o.user), goString(o.password), goString(o.domain), goString(o.app_instance)
	cfg.Timeout, cfg.ReconnectTimeout = duration(int64(o.timeout_ms)), duration(int64(o.reconnect_ms))
	cfg.Connections, cfg.RequireRDMA, cfg.RequireEncryption = int(o.connections), o.require_rdma != 0, o.require_encryption != 0
	return cfg, nil
}

//export lwioGoDial
func lwioGoDial(url *C.char, options *C.struct_lwio_options, out *C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	if url == nil || out == nil {
		return result(text, invalid("the URL, or the pointer for the client, is NULL"))
	}
	cfg, err := configOf(options)
	if err != nil {
		return result(text, err)
	}
	target, err := lwio.ParseURL(C.GoString(url))
	if err != nil {
		return result(text, invalid(strings.TrimPrefix(err.Error(), "lwio: ")))
	}
	c, err := lwio.DialTarget(context.Background(), target, cfg)
	if err != nil {
		return result(text, err)
	}
	*out = C.uint64_t(all.add(c))
	return 0
}

//export lwioGoClientClose
func lwioGoClientClose(client C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, err := remove[*lwio.Client](&all, uint64(client))
	if err == nil {
		err = c.Close()
	}
	return result(text, err)
}

//export lwioGoTransport
func lwioGoTransport(client C.uint64_t, buf *C.char, size C.size_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, err := object[*lwio.Client](&all, uint64(client))
	if err == nil && buf == nil && size > 0 {
		err = errNoResult
	}
	if err != nil {
		return result(text, err)
	}
	s := c.Transport().String()
	if size > 0 {
		dst := unsafe.Slice((*byte)(unsafe.Pointer(buf)), int(min(size, C.size_t(len(s)+1))))
		dst[copy(dst[:len(dst)-1], s)] = 0
	}
	return C.int(len(s))
}

//export lwioGoMaxInFlight
func lwioGoMaxInFlight(client C.uint64_t, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, err := object[*lwio.Client](&all, uint64(client))
	if err != nil {
		return result(text, err)
	}
	return C.int(c.MaxInFlight())
}

//export lwioGoStat
func lwioGoStat(client C.uint64_t, name *C.char, st *C.struct_lwio_stat, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, path, err := named(client, name)
	if err == nil && st == nil {
		err = errNoResult
	}
	if err != nil {
		return result(text, err)
	}
	info, err := c.Stat(context.Background(), path)
	if err == nil {
		*st = statOf(info)
	}
	return result(text, err)
}

//export lwioGoMkdir
func lwioGoMkdir(client C.uint64_t, name *C.char, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, path, err := named(client, name)
	if err == nil {
		err = c.Mkdir(context.Background(), path, 0o777)
	}
	return result(text, err)
}

// removeKind removes a directory or another file.
func removeKind(client C.uint64_t, name *C.char, directory bool) error {
	c, path, err := named(client, name)
	if err != nil {
		return err
	}
	info, err := c.Stat(context.Background(), path)
	switch {
	case err != nil:
		return err
	case directory && !info.IsDir():
		return fmt.Errorf("lwio: rmdir %s: %w", path, syscall.ENOTDIR)
	case !directory && info.IsDir():
		return fmt.Errorf("lwio: unlink %s: %w", path, syscall.EISDIR)
	}
	return c.Remove(context.Background(), path)
}

//export lwioGoUnlink
func lwioGoUnlink(client C.uint64_t, name *C.char, text *C.char) (r C.int) {
	defer caught(text, &r)
	return result(text, removeKind(client, name, false))
}

//export lwioGoRmdir
func lwioGoRmdir(client C.uint64_t, name *C.char, text *C.char) (r C.int) {
	defer caught(text, &r)
	return result(text, removeKind(client, name, true))
}

//export lwioGoRename
func lwioGoRename(client C.uint64_t, from, to *C.char, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, path, err := named(client, from)
	if err != nil {
		return result(text, err)
	}
	_, target, err := named(client, to)
	if err == nil {
		err = c.Rename(context.Background(), path, target)
	}
	return result(text, err)
}

// readHead reads the beginning of one file and returns the error of a failure, which h has as an errno.
func readHead(c *lwio.Client, h *C.struct_lwio_head) error {
	err := func() error {
		if h.name == nil {
			return invalid("the name is NULL")
		}
		p, err := memory(h.buf, uint64(h.size), 0)
		if err != nil {
			return err
		}
		n, info, err := c.ReadHead(context.Background(), C.GoString(h.name), p)
		if err != nil {
			return err
		}
		h.result, h.stat = C.int64_t(n), statOf(info)
		return nil
	}()
	if err != nil {
		h.result = -C.int64_t(errnoOf(err))
	}
	return err
}

//export lwioGoReadHeads
func lwioGoReadHeads(client C.uint64_t, list *C.struct_lwio_head, n C.int, text *C.char) (r C.int) {
	defer caught(text, &r)
	c, err := object[*lwio.Client](&all, uint64(client))
	if err == nil && (n < 0 || n > 0 && list == nil) {
		err = invalid("the number of files is below 0, or the list is NULL")
	}
	if err != nil {
		return result(text, err)
	}
	heads := unsafe.Slice(list, int(n))
	first, firstErr, failed := math.MaxInt, error(nil), 0
	var (
		mu   sync.Mutex
		next int
		wg   sync.WaitGroup
	)
	for range min(headsInFlight, len(heads)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(heads) {
					return
				}
				if err := readHead(c, &heads[i]); err != nil {
					mu.Lock()
					if failed++; i < first {
						first, firstErr = i, err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if failed > 0 {
		fail(text, firstErr)
	}
	return C.int(failed)
}
