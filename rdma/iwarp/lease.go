package iwarp

import "lwio/rdma"

// lease is the right to touch memory: that of a region as long as it is open, or
// that of a window as long as one binding is in force. A region cannot be closed
// while a window is bound to it.
type lease struct {
	region *region
	window *window
	change uint32
}

// acquire takes a reference; it fails once the right is gone.
func (l *lease) acquire() bool {
	if l.window != nil {
		return l.window.acquire(l.change)
	}
	return l.region.acquire()
}

// release gives it back.
func (l *lease) release() {
	if l.window != nil {
		l.window.release()
		return
	}
	l.region.release()
}

// view is memory as a peer sees it.
type view struct {
	lease  lease
	buf    []byte
	base   uint64 // what the peer calls the first byte
	access rdma.Access
}

// find gives the memory of a token of the peer, if there is any.
//
// Source: [RFC 5042 §6.3]
func (c *conn) find(token uint32) (view, bool) {
	if token&1 != 0 {
		w, v := c.qp.windows.find(token)
		return v, w != nil
	}
	r := c.a.table.find(token)
	if r == nil || !r.open() {
		return view{}, false
	}
	return r.view(), true
}

// view is the whole region.
func (r *region) view() view {
	return view{lease: lease{region: r}, buf: r.buf, base: r.base, access: r.access}
}

// slice finds the n bytes that a peer calls to, or says which fault it is that
// they are not there. n is not zero.
//
// Source: [RFC 5041 §7], [RFC 5040 §8.1.1]
func (v *view) slice(to, n uint64) ([]byte, *fault) {
	if to+n < to {
		return nil, &faultWrap
	}
	if to < v.base || to-v.base > uint64(len(v.buf)) || n > uint64(len(v.buf))-(to-v.base) {
		return nil, &faultBounds
	}
	off := to - v.base
	return v.buf[off : off+n : off+n], nil
}
