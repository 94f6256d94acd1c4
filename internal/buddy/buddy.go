// Package buddy allocates blocks of a range of units. The size of a block is a power of two, and a
// block begins at a multiple of its size. The last released block is allocated first, while its
// memory is still in the CPU's cache.
package buddy

// Range is a range of units. Each unit is in a free or in an allocated block. Not safe for concurrent
// use.
type Range struct {
	top   int // order of the largest block
	heads []int32
	units []unit
}

// unit describes the block that begins at a unit.
type unit struct {
	next, prev int32
	order      int8
	state      uint8
}

// The states of a unit.
const (
	unitInside uint8 = iota // no block begins here
	unitFree
	unitTaken
)

// none ends a list of blocks.
const none = int32(-1)

// New returns a range of n units, rounded down to whole blocks of 1<<top units. No block is larger.
func New(n, top int) *Range {
	r := &Range{top: top, heads: make([]int32, top+1), units: make([]unit, n>>top<<top)}
	for i := range r.heads {
		r.heads[i] = none
	}
	for i := len(r.units) - 1<<top; i >= 0; i -= 1 << top {
		r.push(int32(i), top)
	}
	return r
}

// Alloc allocates a block of 1<<order units and returns its first unit; false if there is none.
func (r *Range) Alloc(order int) (int32, bool) {
	have := order
	for have <= r.top && r.heads[have] == none {
		have++
	}
	if have > r.top {
		return none, false
	}
	at := r.heads[have]
	r.unlink(at)
	for ; have > order; have-- {
		r.push(at+1<<(have-1), have-1)
	}
	r.units[at].order, r.units[at].state = int8(order), unitTaken
	return at, true
}

// Release frees the block that begins at a unit, and returns the size of that block in units. It
// joins the block with its free neighbour, and repeats that for the joined block.
func (r *Range) Release(at int32) int {
	order := int(r.units[at].order)
	size := 1 << order
	for order < r.top {
		other := at ^ 1<<order
		if r.units[other].state != unitFree || int(r.units[other].order) != order {
			break
		}
		r.unlink(other)
		r.units[max(at, other)].state = unitInside
		at = min(at, other)
		order++
	}
	r.push(at, order)
	return size
}

// push makes the block at a unit the first free one of its order.
func (r *Range) push(at int32, order int) {
	head := r.heads[order]
	r.units[at] = unit{next: head, prev: none, order: int8(order), state: unitFree}
	if head != none {
		r.units[head].prev = at
	}
	r.heads[order] = at
}

// unlink removes a free block from the list of its order.
func (r *Range) unlink(at int32) {
	u := r.units[at]
	if u.prev == none {
		r.heads[u.order] = u.next
	} else {
		r.units[u.prev].next = u.next
	}
	if u.next != none {
		r.units[u.next].prev = u.prev
	}
	r.units[at].state = unitInside
}
