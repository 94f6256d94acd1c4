package lwio

import (
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/wire"

	"pgregory.net/rapid"
)

// landed is a connection without a peer, on which requests of several batches, and of a
// call, are outstanding in all its slots.
type landed struct {
	c       *conn
	batches []*queue
	ops     []*operation // by slot; nil is the call's
	writes  int
	polled  int
}

func newLanded(t *rapid.T) *landed {
	const n = 140
	c := &conn{counts: new(counts), born: time.Now(), slots: make([]slot, n), polled: newSlotSet(n)}
	c.free.init(c.slots)
	x := &landed{c: c, batches: make([]*queue, 3), ops: make([]*operation, n)}
	for i := range x.batches {
		x.batches[i] = &queue{}
		x.batches[i].need.Store(1 << 40)
	}
	call := rapid.IntRange(0, n-1).Draw(t, "call")
	blocks := make([]atomic.Uint64, n)
	for i := range c.slots {
		s := &c.slots[i]
		s.index, s.block, s.kind, s.want, s.bounce = i, &blocks[i], kindRead, 8, []byte("answered")
		polled := rapid.Bool().Draw(t, "polled")
		if polled {
			c.polled.add(i)
			x.polled++
		}
		s.start(slotPending, polled)
		if i == call {
			s.waiter.token = make(chan struct{}, 1)
			continue
		}
		o := &operation{q: x.batches[rapid.IntRange(0, len(x.batches)-1).Draw(t, "batch")], arguments: arguments{p: make([]byte, 8), size: 8}, n: 8, s: s, bounce: true}
		if o.write = rapid.Bool().Draw(t, "write"); o.write {
			s.kind = kindWrite
			x.writes++
		}
		s.op, x.ops[i] = o, o
	}
	c.unanswered.Store(int64(x.writes))
	return x
}

// check demands that each operation came back to its batch at most once, and that a slot is
// free only then. It returns how many operations came back, and slots are free.
func (x *landed) check(t *rapid.T) (came, free int) {
	back := map[*operation]bool{}
	for _, b := range x.batches {
		n := int64(0)
		for o := b.answered.Load(); o != nil; o = o.next {
			if back[o] || o.q != b || !o.cameBack() {
				t.Fatal("an operation came back twice, or to another batch")
			}
			back[o] = true
			n++
		}
		if b.count.Load() != n {
			t.Fatalf("%d came back, counted are %d", n, b.count.Load())
		}
	}
	for i, o := range x.ops {
		if o == nil {
			continue
		}
		is := x.c.free.set[i/64].Load()>>(i%64)&1 == 1
		if is {
			free++
		}
		if is && !back[o] || back[o] && !o.cameBack() {
			t.Fatalf("slot %d: its operation came back %v, and says %v; it is free %v", i, back[o], o.cameBack(), is)
		}
		if back[o] && !o.write && string(o.p) != "answered" {
			t.Fatalf("slot %d: %q was read", i, o.p)
		}
	}
	if x.c.free.size() != free {
		t.Fatalf("%d slots are free, %d are of operations", x.c.free.size(), free)
	}
	return len(back), free
}

// Answers that are seen together, in any order and for several batches, come back once
// each to their batch, and only then are their slots free; what was counted is all of it,
// and nothing is polled for any more.
func TestLandingModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newLanded(t)
		c := x.c
		var l landing
		order := make([]int, len(c.slots))
		for i := range order {
			order[i] = i
		}
		order = rapid.Permutation(order).Draw(t, "order")
		for _, i := range order {
			s := &c.slots[i]
			s.set(slotSettling)
			if err := c.settle(s, slotPending, wire.IOStatusBlock{Information: 8}, &l); err != nil {
				t.Fatal(err)
			}
			if x.ops[i] == nil && (s.state() != slotDone || c.seen.Load() == 0) {
				t.Fatal("the call was not told, or before its answer was counted")
			}
			if rapid.IntRange(0, 9).Draw(t, "hand over") == 0 {
				l.handOver(c)
			}
			x.check(t)
		}
		l.handOver(c)
		if came, free := x.check(t); came != len(c.slots)-1 || free != came {
			t.Fatalf("%d of %d came back, %d slots are free", came, len(c.slots)-1, free)
		}
		k := c.counts
		if c.seen.Load() != int64(len(c.slots)) || c.unanswered.Load() != 0 || !c.polled.empty() {
			t.Errorf("seen %d, unanswered %d, polled for %v", c.seen.Load(), c.unanswered.Load(), !c.polled.empty())
		}
		var got Stats
		k.snapshot(&got)
		if got.Polled != uint64(x.polled) || got.Interrupts != uint64(len(c.slots)-x.polled) || got.Latency.Count() != uint64(len(c.slots)) {
			t.Errorf("counted %d polled of %d, %d not, %d delays", got.Polled, x.polled, got.Interrupts, got.Latency.Count())
		}
	})
}
