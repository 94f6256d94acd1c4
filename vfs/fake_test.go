package vfs_test

import (
	"bytes"
	"syscall"

	"lwio/vfs"
)

// smallDisk is a backend whose files end at room bytes.
type smallDisk struct {
	vfs.Backend
	room int64
}

func (d *smallDisk) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	h, err := d.Backend.Create(path, how, readOnly)
	return smallFile{h, d.room}, err
}

type smallFile struct {
	vfs.Handle
	room int64
}

func (f smallFile) WriteAt(p []byte, off int64, durable bool) (int, error) {
	if off+int64(len(p)) <= f.room {
		return f.Handle.WriteAt(p, off, durable)
	}
	n, err := f.Handle.WriteAt(p[:max(0, f.room-off)], off, durable)
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f smallFile) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	return f.WriteAt(bytes.Join(pieces, nil), off, durable)
}

func (f smallFile) Truncate(size int64) error {
	if size > f.room {
		return syscall.ENOSPC
	}
	return f.Handle.Truncate(size)
}

// hooked is a backend whose calls a test observes and changes.
type hooked struct {
	vfs.Backend
	looked    func(path string) // after each Stat
	removable error
	durable   []bool // of the writes so far
	truncate  func() error
	wrote     func() // after a write
	close     func() // before a handle is closed
}

func (h *hooked) Close() error { return nil }

func (h *hooked) CheckRemove(path string) error {
	if h.removable != nil {
		return h.removable
	}
	return h.Backend.CheckRemove(path)
}

func (h *hooked) Stat(path string) (vfs.FileInfo, error) {
	info, err := h.Backend.Stat(path)
	if h.looked != nil {
		h.looked(path)
	}
	return info, err
}

func (h *hooked) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	f, err := h.Backend.Open(path, how)
	return &hookedFile{f, h}, err
}

type hookedFile struct {
	vfs.Handle
	b *hooked
}

func (f *hookedFile) Close() error {
	if f.b.close != nil {
		f.b.close()
	}
	return f.Handle.Close()
}

func (f *hookedFile) WriteAt(p []byte, off int64, durable bool) (int, error) {
	f.b.durable = append(f.b.durable, durable)
	n, err := f.Handle.WriteAt(p, off, durable)
	if f.b.wrote != nil {
		f.b.wrote()
	}
	return n, err
}

func (f *hookedFile) Truncate(size int64) error {
	if f.b.truncate != nil {
		return f.b.truncate()
	}
	return f.Handle.Truncate(size)
}

func (f *hookedFile) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	return f.WriteAt(bytes.Join(pieces, nil), off, durable)
}

// hook puts a hooked backend under the share "data".
func hook(h *hooked) func(*vfs.Config) {
	return func(c *vfs.Config) {
		h.Backend = c.Shares[0].Backend
		c.Shares[0].Backend = h
	}
}
