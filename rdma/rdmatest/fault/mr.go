package fault

import (
	"os"
	"sync/atomic"

	"lwio/rdma"
)

// region wraps a memory region; queue pairs unwrap it.
type region struct {
	p      *Provider
	inner  rdma.MemoryRegion
	closed atomic.Bool
}

var _ rdma.MemoryRegion = (*region)(nil)

func (r *region) Bytes() []byte               { return r.inner.Bytes() }
func (r *region) Access() rdma.Access         { return r.inner.Access() }
func (r *region) RemoteAddr() rdma.RemoteAddr { return r.inner.RemoteAddr() }

func (r *region) Close() error {
	err := r.p.close("region", r.inner)
	if err == nil {
		r.closed.Store(true)
	}
	return err
}

// window wraps a memory window.
type window struct {
	p     *Provider
	inner rdma.MemoryWindow
}

var _ rdma.MemoryWindow = (*window)(nil)

func (w *window) RemoteAddr() rdma.RemoteAddr { return w.inner.RemoteAddr() }
func (w *window) Close() error                { return w.p.close("window", w.inner) }

// fileSource wraps a file source.
type fileSource struct {
	p     *Provider
	inner rdma.FileSource
}

var _ rdma.FileSource = (*fileSource)(nil)

func (f *fileSource) File() *os.File { return f.inner.File() }
func (f *fileSource) Close() error   { return f.p.close("file source", f.inner) }
