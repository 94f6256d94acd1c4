//go:build linux

package shm

import (
	"testing"

	"golang.org/x/sys/unix"
)

// blocks is how many bytes of pages a memory file has.
func blocks(tb testing.TB, fd int) int64 {
	tb.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		tb.Fatal(err)
	}
	return st.Blocks * 512
}

// TestSegmentPages: a segment that nobody has used has next to no pages, on either
// side, and one with a large ring all of those.
func TestSegmentPages(t *testing.T) {
	for ring, want := range map[int]int64{minRing: 0, defaultRing: 0, 2 * defaultRing: 2 * defaultRing} {
		fds, own, err := newOwnSegment(ring)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := mapPeerSegment(fds, uint32(ring))
		if err != nil {
			t.Fatal(err)
		}
		if words, data := blocks(t, fds[0]), blocks(t, fds[1]); words != 0 || data != want {
			t.Errorf("a ring of %d bytes: %d and %d bytes of pages", ring, words, data)
		}
		own.ring[ring-1] = 5
		if got := peer.ring[ring-1]; got != 5 {
			t.Errorf("the peer sees %d", got)
		}
		own.tail.Store(7)
		if got := peer.tail.Load(); got != 7 {
			t.Errorf("the peer sees a tail of %d", got)
		}
		peer.unmap()
		own.unmap()
		fds.close()
	}
}

// TestSeals: a peer can write the ring that it is sent, but not the words, and neither can
// it have a mapping of another size. Source: design decision 11
func TestSeals(t *testing.T) {
	fds, own, err := newOwnSegment(minRing)
	if err != nil {
		t.Fatal(err)
	}
	defer fds.close()
	defer own.unmap()
	if _, err := unix.Mmap(fds[0], 0, segmentSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != unix.EPERM {
		t.Errorf("the words can be mapped to write: %v", err)
	}
	if _, err := unix.Pwrite(fds[0], []byte{1}, 0); err != unix.EPERM {
		t.Errorf("the words can be written: %v", err)
	}
	if err := unix.Fallocate(fds[0], unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096); err != unix.EPERM {
		t.Errorf("the words can be taken away: %v", err)
	}
	for i, fd := range fds {
		for _, size := range []int64{0, 1 << 20} {
			if err := unix.Ftruncate(fd, size); err != unix.EPERM {
				t.Errorf("file %d can have %d bytes: %v", i, size, err)
			}
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != unix.EPERM {
			t.Errorf("file %d can be sealed: %v", i, err)
		}
	}
}
