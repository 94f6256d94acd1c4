package posix

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"lwio/vfs"
)

// file is an open file of a Dir. The data path uses the descriptor's number: the table of opens
// closes it only when no reference is held.
type file struct {
	dir *Dir
	f   *os.File
	fd  int
	// mode is a readMode once it is known.
	mode atomic.Uint32
	// writeMu admits one writer at a time to the kernel, which would make the others spin for
	// the file's lock.
	writeMu sync.Mutex
}

func newFile(d *Dir, f *os.File, _ vfs.HandleMode) (*file, error) {
	h := &file{dir: d, f: f, fd: -1}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = raw.Control(func(fd uintptr) { h.fd = int(fd) })
	return h, err
}

func (h *file) File() *os.File { return h.f }
func (h *file) Close() error   { return h.f.Close() }

func (h *file) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pread(h.fd, p[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			keep(h.f)
			return n, translate(err)
		case m == 0:
			keep(h.f)
			return n, nil
		}
		n += m
	}
	keep(h.f)
	return n, nil
}

func (h *file) WriteAt(p []byte, off int64, durable bool) (int, error) {
	return h.writeAll(len(p), durable, func(done, flags int) (int, error) {
		if flags == 0 {
			return unix.Pwrite(h.fd, p[done:], off+int64(done))
		}
		v := vectors.Get().(*vector)
		defer vectors.Put(v)
		return v.write(h.fd, [][]byte{p[done:]}, off+int64(done), flags)
	})
}

func (h *file) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	v := vectors.Get().(*vector)
	defer vectors.Put(v)
	size, gone := 0, 0
	for _, p := range pieces {
		size += len(p)
	}
	return h.writeAll(size, durable, func(done, flags int) (int, error) {
		pieces, gone = after(pieces, done-gone), done
		return v.write(h.fd, pieces, off+int64(done), flags)
	})
}

// after returns the pieces after their first n bytes.
func after(pieces [][]byte, n int) [][]byte {
	for n > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}

// writeAll writes size bytes by calls of once, which writes some of the bytes after the first
// done ones, with flags of RWF_ or none.
func (h *file) writeAll(size int, durable bool, once func(done, flags int) (int, error)) (int, error) {
	defer keep(h.f)
	n := 0
	for n < size {
		m, err := h.write(n, durable, once)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, translate(err)
		case m == 0:
			return n, io.ErrShortWrite
		}
		n += m
	}
	return n, nil
}

// write calls once, durably by a flag where the kernel supports it.
func (h *file) write(done int, durable bool, once func(done, flags int) (int, error)) (int, error) {
	if !durable {
		h.writeMu.Lock()
		defer h.writeMu.Unlock()
		return once(done, 0)
	}
	n, err := once(done, unix.RWF_DSYNC)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return n, err
	}
	if n, err = once(done, 0); err != nil {
		return n, err
	}
	return n, eintr(func() error { return unix.Fdatasync(h.fd) })
}

func (h *file) Sync() error {
	defer keep(h.f)
	err := eintr(func() error { return unix.Fsync(h.fd) })
	if errors.Is(err, unix.EINVAL) {
		return nil // it has nothing to sync
	}
	return translate(err)
}

func (h *file) Truncate(size int64) error {
	defer keep(h.f)
	return translate(eintr(func() error { return unix.Ftruncate(h.fd, size) }))
}

func (h *file) Stat() (vfs.FileInfo, error) {
	defer keep(h.f)
	return statx(h.fd, "")
}

func (h *file) SetTimes(t vfs.Times) error {
	defer keep(h.f)
	ts := []unix.Timespec{timespec(t.Accessed), timespec(t.Modified)}
	return translate(unix.UtimesNanoAt(h.fd, "", ts, unix.AT_EMPTY_PATH))
}

func timespec(t time.Time) unix.Timespec {
	if t.IsZero() {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return ts
}

func (h *file) SetReadOnly(on bool) error {
	defer keep(h.f)
	var st unix.Stat_t
	if err := unix.Fstat(h.fd, &st); err != nil {
		return err
	}
	perm := st.Mode & 0o7777
	if on {
		perm &^= 0o222
	} else {
		perm |= 0o200
	}
	return translate(unix.Fchmod(h.fd, perm))
}

func (h *file) Writable() bool {
	defer keep(h.f)
	return accessible(h.fd, unix.W_OK)
}

func (h *file) Names(n int, restart bool) ([]string, error) {
	if restart {
		if _, err := h.f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	names, err := h.f.Readdirnames(n)
	if errors.Is(err, os.ErrNotExist) {
		return names, io.EOF // the directory itself is gone
	}
	return names, err
}

func (h *file) Entry(dir, name string) (vfs.FileInfo, error) {
	defer keep(h.f)
	info, err := statx(h.fd, name)
	if err != nil || !info.Special || !isLink(h.fd, name) {
		return info, translate(err)
	}
	return h.dir.visible(dir, name)
}
