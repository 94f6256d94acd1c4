package posix

import (
	"errors"

	"golang.org/x/sys/unix"

	"lwio/vfs"
)

// readMode is the way to read a file system without waiting.
type readMode uint32

const (
	readUnknown readMode = iota
	readNowait           // preadv2 with RWF_NOWAIT
	readPlain            // it is in memory: pread does not wait
	readNever            // not supported
)

// ReadCached reads from the page cache, by preadv2 with RWF_NOWAIT, in pieces of
// vfs.MaxCachedRead. The first read of a file system finds out whether it supports that.
//
// A file system may return 0 bytes where it would wait, so the end of the file is checked with
// fstat.
func (h *file) ReadCached(p []byte, off int64) (n int, ok bool, err error) {
	mode := readMode(h.mode.Load())
	if mode == readUnknown {
		if mode = h.probe(); mode == readUnknown {
			return 0, false, nil
		}
	}
	switch mode {
	case readPlain:
		n, err = h.ReadAt(p, off)
		return n, true, err
	case readNever:
		return 0, false, nil
	default:
	}
	for n < len(p) {
		piece := p[n:min(len(p), n+vfs.MaxCachedRead)]
		m, err := h.nowait(piece, off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EOPNOTSUPP):
			keep(h.f)
			return n, false, nil
		case err != nil:
			keep(h.f)
			return n, true, translate(err)
		}
		n += m
		if m < len(piece) && h.ends(off+int64(n)) {
			break
		}
		if m == 0 {
			keep(h.f)
			return n, false, nil
		}
	}
	keep(h.f)
	return n, true, nil
}

// nowait is one preadv2.
func (h *file) nowait(p []byte, off int64) (int, error) {
	return preadNowait(h.fd, p, off)
}

// ends reports whether off is at or beyond the end of the file.
func (h *file) ends(off int64) bool {
	var st unix.Stat_t
	return unix.Fstat(h.fd, &st) == nil && off >= st.Size
}

// probe finds the readMode of the file's file system.
func (h *file) probe() readMode {
	var st unix.Stat_t
	if unix.Fstat(h.fd, &st) != nil {
		return readUnknown
	}
	if m, known := h.dir.probes.Load(st.Dev); known {
		h.mode.Store(uint32(m.(readMode)))
		return m.(readMode)
	}
	mode := readNowait
	var one [1]byte
	switch _, err := h.nowait(one[:], 0); {
	case err == nil || errors.Is(err, unix.EAGAIN):
	case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL):
		mode = readNever
		var sf unix.Statfs_t
		if unix.Fstatfs(h.fd, &sf) == nil && (sf.Type == unix.TMPFS_MAGIC || sf.Type == unix.RAMFS_MAGIC) {
			mode = readPlain
		}
	default:
		return readUnknown
	}
	h.dir.probes.Store(st.Dev, mode)
	h.mode.Store(uint32(mode))
	return mode
}
