//go:build linux

package shm

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSegmentPages: a segment that nobody has used has next to no pages, on either
// side, and one with a large ring all of them.
func TestSegmentPages(t *testing.T) {
	for ring, want := range map[int]int64{minRing: 0, defaultRing: 0, 2 * defaultRing: ringOffset + 2*defaultRing} {
		fd, own, err := newOwnSegment(ring)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := mapPeerSegment(fd, uint32(ring))
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Blocks*512 != want {
			t.Errorf("a ring of %d bytes: %d bytes of pages, %v", ring, st.Blocks*512, err)
		}
		own.ring[ring-1] = 5
		if got := peer.ring[ring-1]; got != 5 {
			t.Errorf("the peer sees %d", got)
		}
		peer.unmap()
		own.unmap()
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}
