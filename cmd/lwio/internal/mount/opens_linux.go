package mount

import (
	"sync"

	"lwio"
)

// opens are the handles of a file in the mount, and its hidden name. Safe for concurrent use.
type opens struct {
	mu      sync.Mutex
	handles map[*handle]struct{}
	hidden  string // its name in the share, if it has none in the mount
}

func (o *opens) add(h *handle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.handles == nil {
		o.handles = make(map[*handle]struct{})
	}
	o.handles[h] = struct{}{}
}

// remove removes a handle. If it was the last one of a file without a name, it returns the hidden name, which the
// caller removes from the share.
func (o *opens) remove(h *handle) (hidden string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.handles, h)
	if len(o.handles) > 0 {
		return ""
	}
	hidden, o.hidden = o.hidden, ""
	return hidden
}

// any returns a handle of the file, or nil.
func (o *opens) any() *lwio.File {
	o.mu.Lock()
	defer o.mu.Unlock()
	for h := range o.handles {
		return h.f
	}
	return nil
}

func (o *opens) hiddenName() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hidden
}

// hide has rename give the file its hidden name, if it is open. No handle is added or removed meanwhile.
func (o *opens) hide(name string, rename func() error) (done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.handles) == 0 || o.hidden != "" {
		return false, nil
	}
	if err := rename(); err != nil {
		return false, err
	}
	o.hidden = name
	return true, nil
}
