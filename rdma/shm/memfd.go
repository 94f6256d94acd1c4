//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"lwio/rdma/internal/softrdma"
)

// The seals that every memory of a peer must have, so that it cannot shrink
// under who reads it.
const sealSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// newMemfd makes memory of size bytes, maps it, and seals it. Its pages come with
// their first use, or with populate. The caller owns the descriptor and the mapping.
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

// populate makes all pages of a memory be there.
func populate(fd int, mem []byte) error {
	if err := unix.Fallocate(fd, 0, 0, int64(len(mem))); err != nil {
		return err
	}
	// Kernels before 5.14 do not know this; each page then costs a fault.
	_ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	return nil
}

// Errors of memory that a peer sent.
var (
	errSeals     = errors.New("the peer's memory is not sealed")
	errNotMemory = errors.New("the peer's descriptor is not memory")
	errHoles     = errors.New("the peer's memory is not populated")
)

// mapMemfd checks memory that a peer sent and maps it: it must have just that
// size, be sealed against another one, be of ordinary pages, and all there, unless
// holes are welcome. Holes that the peer makes afterwards are filled by the kernel.
func mapMemfd(fd, size, prot int, holes bool) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotMemory, err)
	}
	if want := sealSize | unix.F_SEAL_SEAL; seals&want != want {
		return nil, errSeals
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return nil, errNotMemory
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if size <= 0 || st.Size != int64(size) {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", errNotMemory, st.Size, size)
	}
	if holes {
		return unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	}
	if st.Blocks < st.Size/512 {
		return nil, errHoles
	}
	return unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// sparse tells whether the pages of a ring of that size come with their first use, and go
// when it rests, so that a connection that is idle has few of them. A reader fills the
// holes of its peer's too: of larger rings that could be much.
func sparse(ring int) bool { return ring <= defaultRing }

// segmentFDs are the descriptors of a segment: of its words, which the peer can only read,
// and of its ring. That has no seal against a peer who writes, which would forbid to give
// its pages back: its owner never reads it, so that who writes there fools himself.
type segmentFDs [2]int

func (f segmentFDs) close() { closeAll(f[:]) }

// newOwnSegment makes this side's segment. The caller owns the descriptors.
func newOwnSegment(ring int) (fds segmentFDs, s *segment, err error) {
	words, mem, err := newMemfd("shm-words", segmentSize, unix.F_SEAL_FUTURE_WRITE)
	if err != nil {
		return fds, nil, err
	}
	data, bytes, err := newMemfd("shm-ring", ring, 0)
	if err != nil {
		_ = unix.Munmap(mem)
		_ = unix.Close(words)
		return fds, nil, err
	}
	fds, s = segmentFDs{words, data}, newSegment(mem, bytes)
	if !sparse(ring) {
		err = populate(data, bytes)
	}
	if err != nil {
		s.unmap()
		fds.close()
		return segmentFDs{}, nil, err
	}
	return fds, s, nil
}

// mapPeerSegment maps the peer's, to read.
func mapPeerSegment(fds segmentFDs, ring uint32) (*segment, error) {
	if ring < minRing || ring > maxRing || ring&(ring-1) != 0 {
		return nil, fmt.Errorf("%w: a ring of %d bytes", errNotMemory, ring)
	}
	mem, err := mapMemfd(fds[0], segmentSize, unix.PROT_READ, true)
	if err != nil {
		return nil, err
	}
	bytes, err := mapMemfd(fds[1], int(ring), unix.PROT_READ, sparse(int(ring)))
	if err != nil {
		_ = unix.Munmap(mem)
		return nil, err
	}
	return newSegment(mem, bytes), nil
}

// unmap ends the use of a segment.
func (s *segment) unmap() {
	if s != nil {
		_ = unix.Munmap(s.mem)
		_ = unix.Munmap(s.ring)
	}
}

// roundUp rounds to whole pages; 0 says that it cannot be.
func roundUp(size, page int) int {
	if size <= 0 || size > math.MaxInt-page || uint64(size) > softrdma.MaxRegistration {
		return 0
	}
	return (size + page - 1) / page * page
}
