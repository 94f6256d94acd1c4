//go:build linux

package ring

import (
	"testing"

	"golang.org/x/sys/unix"
)

// blocks returns the allocated bytes of a memory file.
func blocks(tb testing.TB, fd int) int64 {
	tb.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		tb.Fatal(err)
	}
	return st.Blocks * 512
}

// An unused segment has almost no pages on either side. A segment with a large ring has
// all pages.
func TestUnusedSegmentHasFewPages(t *testing.T) {
	for ring, want := range map[int]int64{MinSize: 0, DefaultSize: 0, 2 * DefaultSize: 2 * DefaultSize} {
		fds, own, err := NewSegment(ring)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := MapSegment(fds, uint32(ring))
		if err != nil {
			t.Fatal(err)
		}
		if words, data := blocks(t, fds[0]), blocks(t, fds[1]); words != 0 || data != want {
			t.Errorf("a ring of %d bytes: %d and %d bytes of pages", ring, words, data)
		}
		own.Ring[ring-1] = 5
		if got := peer.Ring[ring-1]; got != 5 {
			t.Errorf("the peer sees %d", got)
		}
		own.Tail.Store(7)
		if got := peer.Tail.Load(); got != 7 {
			t.Errorf("the peer sees a tail of %d", got)
		}
		peer.Unmap()
		own.Unmap()
		fds.Close()
	}
}

// A peer can write the ring that it receives, but not the words. It cannot change the
// size of either. Source: design decision 11
func TestSealsForbidResizeAndWrite(t *testing.T) {
	fds, own, err := NewSegment(MinSize)
	if err != nil {
		t.Fatal(err)
	}
	defer fds.Close()
	defer own.Unmap()
	if _, err := unix.Mmap(fds[0], 0, SegmentSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != unix.EPERM {
		t.Errorf("the words can be mapped to write: %v", err)
	}
	peer, err := MapSegment(fds, MinSize)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Unmap()
	if err := unix.Mprotect(peer.mem, unix.PROT_READ|unix.PROT_WRITE); err != unix.EACCES {
		t.Errorf("the peer's mapping of the words can be made writable: %v", err)
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
