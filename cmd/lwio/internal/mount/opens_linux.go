package mount

import (
	"path"
	"sync"

	"lwio"
)

// opens are the handles of a file in the mount, and its hidden name. Safe for concurrent use.
type opens struct {
	mu      sync.Mutex
	handles map[*handle]struct{}
	hidden  hiddenName // zero if the file has a name in the mount
}

// hiddenName is the name in the share of a file without a name in the mount: one in a directory, which may be renamed.
type hiddenName struct {
	dir  *node
	name string
}

// path returns the name in the share, or "".
func (h hiddenName) path() string {
	if h.dir == nil {
		return ""
	}
	return path.Join(h.dir.Path(nil), h.name)
}

// add adds a handle.
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
func (o *opens) remove(h *handle) (hidden hiddenName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.handles, h)
	if len(o.handles) > 0 {
		return hiddenName{}
	}
	hidden, o.hidden = o.hidden, hiddenName{}
	return hidden
}

// any returns a handle of the file, for writing if it has to be, or nil.
func (o *opens) any(writes bool) *lwio.File {
	o.mu.Lock()
	defer o.mu.Unlock()
	for h := range o.handles {
		if h.writes || !writes {
			return h.f
		}
	}
	return nil
}

// hiddenAt returns the hidden name of the file.
func (o *opens) hiddenAt() hiddenName {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hidden
}

// hide has rename give the file its hidden name, if it is open. No handle is added or removed meanwhile.
func (o *opens) hide(name hiddenName, rename func() error) (done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.handles) == 0 || o.hidden.dir != nil {
		return false, nil
	}
	if err := rename(); err != nil {
		return false, err
	}
	o.hidden = name
	return true, nil
}

// show has rename give the file its name back. If rename fails the file keeps the hidden name, and is not removed at
// its last close.
func (o *opens) show(rename func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hidden = hiddenName{}
	return rename()
}
