//go:build !linux

package vfs

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// handle is an open file of a Dir.
type handle struct {
	dir  *Dir
	f    *os.File
	how  How
	name string

	mu sync.Mutex // one append at a time
}

func newHandle(d *Dir, f *os.File, how How) (*handle, error) {
	return &handle{dir: d, f: f, how: how}, nil
}

func (h *handle) File() *os.File { return h.f }
func (h *handle) Close() error   { return h.f.Close() }
func (h *handle) Writable() bool { return h.perm()&writeBits != 0 }

func (h *handle) perm() os.FileMode {
	fi, err := h.f.Stat()
	if err != nil {
		return 0
	}
	return fi.Mode().Perm()
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, translate(err)
}

// ReadCached cannot tell on this system.
func (h *handle) ReadCached([]byte, int64) (int, bool, error) { return 0, false, nil }

func (h *handle) WriteAt(p []byte, off int64, durable bool) (int, error) {
	if h.how.Append {
		h.mu.Lock()
		defer h.mu.Unlock()
		fi, err := h.f.Stat()
		if err != nil {
			return 0, err
		}
		off = fi.Size()
	}
	n, err := h.f.WriteAt(p, off)
	if err == nil && durable {
		err = h.f.Sync()
	}
	return n, translate(err)
}

func (h *handle) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	n := 0
	for i, p := range pieces {
		m, err := h.WriteAt(p, off+int64(n), durable && i == len(pieces)-1)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (h *handle) Sync() error {
	if h.how.Dir {
		return nil
	}
	return translate(h.f.Sync())
}

func (h *handle) Truncate(size int64) error { return translate(h.f.Truncate(size)) }

func (h *handle) Stat() (FileInfo, error) {
	fi, err := h.f.Stat()
	if err != nil {
		return FileInfo{}, translate(err)
	}
	info, err := h.dir.infoOf("", fi)
	if err == nil {
		err = fillFile(h.f, &info)
	}
	return info, err
}

// SetReadOnly changes the permissions of the file.
func (h *handle) SetReadOnly(on bool) error {
	perm := h.perm()
	if on {
		perm &^= writeBits
	} else {
		perm |= 0o200
	}
	return translate(h.f.Chmod(perm))
}

// SetTimes sets both times; one that is to stay is set to what it was.
func (h *handle) SetTimes(t Times) error {
	info, err := h.Stat()
	if err != nil {
		return err
	}
	pick := func(want, now time.Time) time.Time {
		if want.IsZero() {
			return now
		}
		return want
	}
	return translate(setTimes(h.f, pick(t.Accessed, info.Accessed), pick(t.Modified, info.Modified)))
}

func (h *handle) Names(n int, restart bool) ([]string, error) {
	if restart {
		if _, err := h.f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return h.f.Readdirnames(n)
}

func (h *handle) Entry(dir, name string) (FileInfo, error) {
	return h.dir.visible(dir, name)
}
