//go:build linux

package ring

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sealSize is the set of seals that a peer's memory must have, so that it cannot shrink
// while this side reads it.
const sealSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// NewMemfd makes a sealed memory file of size bytes and maps it. Its pages are allocated
// by their first use or by Populate. The caller owns the descriptor and the mapping.
func NewMemfd(name string, size int) (fd int, mem []byte, err error) {
	return newMemfd(name, size, 0)
}

func newMemfd(name string, size, seals int) (fd int, mem []byte, err error) {
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, nil, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		return -1, nil, err
	}
	if mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return -1, nil, err
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals|sealSize|unix.F_SEAL_SEAL); err != nil {
		_ = unix.Munmap(mem)
		return -1, nil, err
	}
	return fd, mem, nil
}

// Populate allocates all pages of a memory file and of its mapping.
func Populate(fd int, mem []byte) error {
	if err := unix.Fallocate(fd, 0, 0, int64(len(mem))); err != nil {
		return err
	}
	// Kernels before 5.14 do not support this. Each page then costs a fault.
	_ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	return nil
}

// Errors of memory that a peer sent.
var (
	ErrSeals     = errors.New("the peer's memory is not sealed")
	ErrNotMemory = errors.New("the peer's descriptor is not memory")
	ErrHoles     = errors.New("the peer's memory is not populated")
)

// MapMemfd checks a memory file that a peer sent, and maps it to read and write. The file
// must have exactly the given size, be sealed against any other size, consist of ordinary
// pages, and be populated. If the peer makes holes afterwards, the kernel fills them.
//
// Errors: ErrSeals, ErrNotMemory, ErrHoles.
func MapMemfd(fd, size int) ([]byte, error) {
	return mapMemfd(fd, size, unix.PROT_READ|unix.PROT_WRITE, false)
}

func mapMemfd(fd, size, prot int, holes bool) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotMemory, err)
	}
	if want := sealSize | unix.F_SEAL_SEAL; seals&want != want {
		return nil, ErrSeals
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return nil, ErrNotMemory
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if size <= 0 || st.Size != int64(size) {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", ErrNotMemory, st.Size, size)
	}
	if holes {
		return unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	}
	if st.Blocks < st.Size/512 {
		return nil, ErrHoles
	}
	return unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// SegmentFDs has the descriptors of a segment: of its words, which the peer can only
// read, and of its ring. The ring has no seal against writing, because that seal would
// forbid to return its pages to the system. The owner never reads its ring, so a peer
// that writes there changes only its own input.
type SegmentFDs [2]int

// Close closes the descriptors.
func (f SegmentFDs) Close() { CloseAll(f[:]) }

// NewSegment makes this side's segment with a ring of size bytes. The caller owns the
// descriptors.
func NewSegment(size int) (fds SegmentFDs, s *Segment, err error) {
	words, mem, err := newMemfd("shm-words", SegmentSize, unix.F_SEAL_FUTURE_WRITE)
	if err != nil {
		return fds, nil, err
	}
	data, bytes, err := newMemfd("shm-ring", size, 0)
	if err != nil {
		_ = unix.Munmap(mem)
		_ = unix.Close(words)
		return fds, nil, err
	}
	fds, s = SegmentFDs{words, data}, segmentOf(mem, bytes)
	if !sparse(size) {
		err = Populate(data, bytes)
	}
	if err != nil {
		s.Unmap()
		fds.Close()
		return SegmentFDs{}, nil, err
	}
	return fds, s, nil
}

// MapSegment checks the peer's segment, with a ring of size bytes, and maps it read-only.
//
// Errors: the errors of MapMemfd.
func MapSegment(fds SegmentFDs, size uint32) (*Segment, error) {
	if size < MinSize || size > MaxSize || size&(size-1) != 0 {
		return nil, fmt.Errorf("%w: a ring of %d bytes", ErrNotMemory, size)
	}
	mem, err := mapMemfd(fds[0], SegmentSize, unix.PROT_READ, true)
	if err != nil {
		return nil, err
	}
	bytes, err := mapMemfd(fds[1], int(size), unix.PROT_READ, sparse(int(size)))
	if err != nil {
		_ = unix.Munmap(mem)
		return nil, err
	}
	return segmentOf(mem, bytes), nil
}

// Unmap unmaps a segment, which may be nil.
func (s *Segment) Unmap() {
	if s != nil {
		_ = unix.Munmap(s.mem)
		_ = unix.Munmap(s.Ring)
	}
}

// IsMemory reports whether a descriptor is memory, so that its close does not wait. The close
// of another file may wait for its file system, or for a peer.
func IsMemory(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return err == nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
