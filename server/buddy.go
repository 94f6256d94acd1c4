package server

import "math/bits"

// blockUnit is the smallest block that the arena deals out, in bytes.
const blockUnit = 4096

// buddy deals out blocks of a range of units; a block is a power of two of them
// and begins at a multiple of its size. The block that came back last goes out
// first, while its memory is still warm. Not safe for concurrent use.
type buddy struct {
	top   int // order of the largest block
	heads []int32
	units []unit
}

// unit describes the block that begins there.
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

// newBuddy makes an allocator of blocks of up to 1<<top units over n units,
// which is rounded down to whole blocks of that size.
func newBuddy(n, top int) *buddy {
	b := &buddy{top: top, heads: make([]int32, top+1), units: make([]unit, n>>top<<top)}
	for i := range b.heads {
		b.heads[i] = none
	}
	for i := len(b.units) - 1<<top; i >= 0; i -= 1 << top {
		b.push(int32(i), top)
	}
	return b
}

// orderOf is the order of the smallest block that holds n bytes.
func orderOf(n int) int {
	if n <= blockUnit {
		return 0
	}
	return bits.Len(uint((n - 1) / blockUnit))
}

// alloc takes a block out and returns its first unit; false if there is none.
func (b *buddy) alloc(order int) (int32, bool) {
	have := order
	for have <= b.top && b.heads[have] == none {
		have++
	}
	if have > b.top {
		return none, false
	}
	at := b.heads[have]
	b.unlink(at)
	for ; have > order; have-- {
		b.push(at+1<<(have-1), have-1)
	}
	b.units[at].order, b.units[at].state = int8(order), unitTaken
	return at, true
}

// release puts the block that begins at a unit back and joins it with its
// neighbour, as often as that is free too. It returns the size in units.
func (b *buddy) release(at int32) int {
	order := int(b.units[at].order)
	size := 1 << order
	for order < b.top {
		other := at ^ 1<<order
		if b.units[other].state != unitFree || int(b.units[other].order) != order {
			break
		}
		b.unlink(other)
		b.units[max(at, other)].state = unitInside
		at = min(at, other)
		order++
	}
	b.push(at, order)
	return size
}

func (b *buddy) push(at int32, order int) {
	head := b.heads[order]
	b.units[at] = unit{next: head, prev: none, order: int8(order), state: unitFree}
	if head != none {
		b.units[head].prev = at
	}
	b.heads[order] = at
}

func (b *buddy) unlink(at int32) {
	u := b.units[at]
	if u.prev == none {
		b.heads[u.order] = u.next
	} else {
		b.units[u.prev].next = u.next
	}
	if u.next != none {
		b.units[u.next].prev = u.prev
	}
	b.units[at].state = unitInside
}
