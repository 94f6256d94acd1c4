package vfs

import (
	"slices"
	"sync"
)

// hooks are functions that run once, in the order in which they were added. mu is not held while they
// run. Safe for concurrent use.
type hooks struct {
	mu   sync.Mutex
	list []*hook
	ran  bool
}

type hook struct{ f func() }

// add registers f, or runs it at once if the hooks have run already. stop unregisters it.
func (h *hooks) add(f func()) (stop func()) {
	h.mu.Lock()
	if h.ran {
		h.mu.Unlock()
		f()
		return func() {}
	}
	added := &hook{f: f}
	h.list = append(h.list, added)
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list = slices.DeleteFunc(h.list, func(other *hook) bool { return other == added })
	}
}

// run runs the registered functions.
func (h *hooks) run() {
	h.mu.Lock()
	list := h.list
	h.list, h.ran = nil, true
	h.mu.Unlock()
	for _, k := range list {
		k.f()
	}
}
