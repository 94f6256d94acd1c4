//go:build !linux

package posix

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"lwio/vfs"
)

// file is an open file of a Dir.
type file struct {
	dir  *Dir
	f    *os.File
	how  vfs.HandleMode
	name string

	mu sync.Mutex // one append at a time
}

func newFile(d *Dir, f *os.File, how vfs.HandleMode) (*file, error) {
	return &file{dir: d, f: f, how: how}, nil
}

func (h *file) File() *os.File { return h.f }
func (h *file) Close() error   { return h.f.Close() }
func (h *file) Writable() bool { return h.perm()&writeBits != 0 }

func (h *file) perm() os.FileMode {
	fi, err := h.f.Stat()
	if err != nil {
		return 0
	}
	return fi.Mode().Perm()
}

func (h *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, translate(err)
}

// ReadCached is not supported on this system.
func (h *file) ReadCached([]byte, int64) (int, bool, error) { return 0, false, nil }

func (h *file) WriteAt(p []byte, off int64, durable bool) (int, error) {
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

func (h *file) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	n := 0
	for i, p := range pieces {
		m, err := h.WriteAt(p, off+int64(n), durable && i == len(pieces)-1)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (h *file) Sync() error {
	if h.how.Dir {
		return nil
	}
	return translate(h.f.Sync())
}

func (h *file) Truncate(size int64) error { return translate(h.f.Truncate(size)) }

func (h *file) Stat() (vfs.FileInfo, error) {
	fi, err := h.f.Stat()
	if err != nil {
		return vfs.FileInfo{}, translate(err)
	}
	info, err := h.dir.infoOf("", fi)
	if err == nil {
		err = fillFile(h.f, &info)
	}
	return info, err
}

// SetReadOnly changes the permissions of the file.
func (h *file) SetReadOnly(on bool) error {
	perm := h.perm()
	if on {
		perm &^= writeBits
	} else {
		perm |= 0o200
	}
	return translate(h.f.Chmod(perm))
}

// SetTimes sets both times; a zero time is set to its current value.
func (h *file) SetTimes(t vfs.Times) error {
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

func (h *file) Names(n int, restart bool) ([]string, error) {
	if restart {
		if _, err := h.f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return h.f.Readdirnames(n)
}

func (h *file) Entry(dir, name string) (vfs.FileInfo, error) {
	return h.dir.visible(dir, name)
}

// Identity is not supported on this system.
func (h *file) Identity() ([]byte, error) { return nil, errors.ErrUnsupported }
