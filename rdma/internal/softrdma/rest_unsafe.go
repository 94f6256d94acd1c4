package softrdma

import (
	"cmp"
	"slices"
	"unsafe"

	"lwio/internal/host"
)

// Rest gives the pages of the receives back that wait, but of the one that is being filled.
// Nobody begins another one meanwhile.
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

// stretchOf is where a piece is.
func stretchOf(p Piece) stretch {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p.Buf))) - uintptr(unsafe.Pointer(unsafe.SliceData(p.Region.buf)))
	return stretch{p.Region, int(at), int(at) + len(p.Buf)}
}

// joined makes one of stretches that follow each other or overlap, so that a page which is
// in several counts as whole.
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

// discard gives its whole pages back, if the region is open: else the memory may be
// somebody's again.
func (s stretch) discard() {
	if s.region.Acquire() {
		host.DiscardPages(s.region.buf[s.from:s.to])
		s.region.Release()
	}
}
