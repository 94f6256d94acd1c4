package vfs

import (
	"container/list"
	"sync"
)

// hooks are functions that run once, in the order in which they were added. mu is not held while they
// run. add and stop take the same time for any number of hooks: an open can have thousands of
// registrations on each of many connections. Safe for concurrent use.
type hooks struct {
	mu   sync.Mutex
	list list.List // of func()
	ran  bool
}

// add registers f, or runs it at once if the hooks have run already. stop unregisters it.
func (h *hooks) add(f func()) (stop func()) {
	h.mu.Lock()
	if h.ran {
		h.mu.Unlock()
		f()
		return func() {}
	}
	added := h.list.PushBack(f)
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list.Remove(added) // does nothing for a hook that run has taken
	}
}

// run runs the registered functions.
func (h *hooks) run() {
	for f := h.take(); f != nil; f = h.take() {
		f()
	}
}

// flush runs and removes the functions that are registered now. Functions that are added later wait
// for the next call.
func (h *hooks) flush() {
	h.mu.Lock()
	n := h.list.Len()
	h.mu.Unlock()
	for range n {
		if f := h.first(); f != nil {
			f()
		}
	}
}

// take removes and returns the first function, or nil. Functions that are added later run at once.
func (h *hooks) take() func() {
	h.mu.Lock()
	h.ran = true
	h.mu.Unlock()
	return h.first()
}

// first removes and returns the first function, or nil.
func (h *hooks) first() func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.list.Front()
	if first == nil {
		return nil
	}
	return h.list.Remove(first).(func())
}
