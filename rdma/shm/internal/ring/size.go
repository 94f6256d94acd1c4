package ring

// The sizes of a ring, in bytes: the least and the largest that a side accepts from its
// peer, and the default.
const (
	MinSize     = 64 << 10
	MaxSize     = 16 << 20
	DefaultSize = 256 << 10
)

// sparse reports whether the pages of a ring of that size come with their first use and are
// returned when the connection is idle, so that an idle connection has few of them. A
// reader populates the holes of its peer's ring too: of larger rings that could be much.
func sparse(size int) bool { return size <= DefaultSize }
