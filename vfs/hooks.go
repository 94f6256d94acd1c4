package vfs

// hooks are functions that run once, in the order in which they were added.
type hooks struct {
	list []*hook
	ran  bool
}

type hook struct{ f func() }

// OnRevoke has f called when a close of the open begins, after new references
// are refused and before those that are held are waited for: f makes sure that
// they come back soon. If the close has begun already, f is called before
// OnRevoke returns. No lock of this package is held around f; f must not close
// the open.
//
// stop takes f back; it does not wait for an f that runs. A second call does
// nothing.
//
// Source: [OP-58b]
func (o *Open) OnRevoke(f func()) (stop func()) { return o.hook(&o.revoke, f) }

// OnStall has f called if I/O in flight has not come back in time after a close
// began. f cuts the connection that stalls. Otherwise like OnRevoke.
//
// Source: [OP-58b]
func (o *Open) OnStall(f func()) (stop func()) { return o.hook(&o.stall, f) }

func (o *Open) hook(h *hooks, f func()) (stop func()) {
	o.fs.mu.Lock()
	if h.ran {
		o.fs.mu.Unlock()
		f()
		return func() {}
	}
	mine := &hook{f: f}
	h.list = append(h.list, mine)
	o.fs.mu.Unlock()
	return func() {
		o.fs.mu.Lock()
		defer o.fs.mu.Unlock()
		for i, other := range h.list {
			if other == mine {
				h.list = append(h.list[:i], h.list[i+1:]...)
				return
			}
		}
	}
}

// runHooks runs what is in h, and makes later additions run at once.
func (o *Open) runHooks(h *hooks) {
	o.fs.mu.Lock()
	list := h.list
	h.list, h.ran = nil, true
	o.fs.mu.Unlock()
	for _, k := range list {
		k.f()
	}
}
