package main

import (
	"sync"
	"syscall"
)

// handles maps the numbers that C programs hold to objects. A number is not used twice, so that a stale one is
// noticed. Safe for concurrent use.
type handles struct {
	mu      sync.RWMutex
	last    uint64
	objects map[uint64]any
}

// all are the handles of the process.
var all = handles{objects: make(map[uint64]any)}

// add returns a new handle for o, above 0.
func (h *handles) add(o any) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.objects[h.last] = o
	return h.last
}

// object returns the object of a handle.
//
// Errors: syscall.EBADF for a number that is not the handle of a T.
func object[T any](h *handles, handle uint64) (T, error) {
	h.mu.RLock()
	o, ok := h.objects[handle].(T)
	h.mu.RUnlock()
	if !ok {
		return o, badHandle{}
	}
	return o, nil
}

// remove releases a handle and returns its object, to one of several callers.
//
// Errors: as object.
func remove[T any](h *handles, handle uint64) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, ok := h.objects[handle].(T)
	if !ok {
		return o, badHandle{}
	}
	delete(h.objects, handle)
	return o, nil
}

// badHandle is syscall.EBADF with a text that names the cause.
type badHandle struct{}

func (badHandle) Error() string        { return "lwio: the handle is not valid, or was closed" }
func (badHandle) Is(target error) bool { return target == syscall.EBADF }
