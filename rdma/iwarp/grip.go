package iwarp

import "lwio/rdma/internal/softrdma"

// grip keeps references to the regions that were used last, so that who handles one frame
// after another need not take and give back a reference for each. It belongs to who handles
// them, who lets go of all before anything that may wait. Whoever closes a region waits for
// no more than what is in hand. The zero value holds nothing.
//
// Source: [RFC 5042 §6.3.1]
type grip struct {
	regions [2]*softrdma.Region // messages and data are in one each, mostly; the last taken first
}

// take makes sure that there is a reference for l, until give. It fails once the right is
// gone; but a region that was in hand before it was closed is good until letGo.
func (g *grip) take(l *softrdma.Lease) bool {
	r := l.Region
	if r != nil && (g.regions[0] == r || g.regions[1] == r) {
		return true
	}
	if !l.Acquire() {
		return false
	}
	if r == nil {
		return true
	}
	if old := g.regions[1]; old != nil {
		old.Release()
	}
	g.regions[1], g.regions[0] = g.regions[0], r
	return true
}

// give ends the use of l. What a window lends is given back at once: it is mostly for one
// request.
func (g *grip) give(l *softrdma.Lease) {
	if l.Region == nil {
		l.Release()
	}
}

// letGo gives all references back.
func (g *grip) letGo() {
	for i, r := range g.regions {
		if r != nil {
			r.Release()
			g.regions[i] = nil
		}
	}
}
