package ring

// The sizes of a ring, in bytes. A side accepts sizes from MinSize to MaxSize from its
// peer.
const (
	MinSize     = 64 << 10
	MaxSize     = 16 << 20
	DefaultSize = 256 << 10
)

// sparse reports whether a ring of the given size allocates its pages on first use, and
// returns them when the connection is idle. An idle connection thus has few pages. A
// reader also populates the holes of its peer's ring; with larger rings that could take
// much memory.
func sparse(size int) bool { return size <= DefaultSize }
