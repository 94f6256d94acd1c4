package softrdma

import (
	"cmp"
	"slices"
	"unsafe"

	"lwio/internal/host"
)

// TrimIdle returns the pages of posted receives to the system, except the pages of the
// receive that is being filled. No receive begins meanwhile.
func (q *ReceiveQueue) TrimIdle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	from := q.receives.Head
	if q.current != nil && q.shared == nil {
		from++
	}
	var waiting []stretch
	for i := from; i != q.receives.Tail; i++ {
		for _, p := range q.receives.At(i).Pieces {
			if len(p.Buf) > 0 {
				waiting = append(waiting, stretchOf(p))
			}
		}
	}
	for _, s := range joined(waiting) {
		s.discard()
	}
}

// stretch is a part of a region.
type stretch struct {
	region *Region
	from   int
	to     int
}

// stretchOf returns the memory of a piece.
func stretchOf(p Piece) stretch {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p.Buf))) - uintptr(unsafe.Pointer(unsafe.SliceData(p.Region.buf)))
	return stretch{p.Region, int(at), int(at) + len(p.Buf)}
}

// joined merges stretches that adjoin or overlap, so that a page that several stretches
// share counts as whole.
func joined(all []stretch) []stretch {
	slices.SortFunc(all, func(a, b stretch) int {
		return cmp.Or(cmp.Compare(a.region.token, b.region.token), cmp.Compare(a.from, b.from))
	})
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].region == s.region && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// discard returns the whole pages of the stretch, if the region is open. The memory of a
// closed region may have another use.
func (s stretch) discard() {
	if s.region.Acquire() {
		host.DiscardPages(s.region.buf[s.from:s.to])
		s.region.Release()
	}
}
