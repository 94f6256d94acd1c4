package vfs_test

import (
	"syscall"

	"lwio/vfs"
)

// smallDisk is a backend whose files end at room bytes.
type smallDisk struct {
	vfs.Backend
	room int64
}

func (d *smallDisk) Create(path string, how vfs.How, readOnly bool) (vfs.Handle, error) {
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

func (f smallFile) Truncate(size int64) error {
	if size > f.room {
		return syscall.ENOSPC
	}
	return f.Handle.Truncate(size)
}
