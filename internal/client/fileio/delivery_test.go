package fileio

import (
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/poller"
	"lwio/internal/wire"

	"pgregory.net/rapid"
)

// delivered is a connection without a peer, on which requests of several batches, and of a
// call, are outstanding in all its entries.
type delivered struct {
	c       *rdmaconn.Conn
	batches []*queue
	ops     []*operation // by entry; nil is the call's
	writes  int
	polled  int
}

func newDelivered(t *rapid.T) *delivered {
	const n = 140
	c := &rdmaconn.Conn{Counts: new(base.Counts), Born: time.Now()}
	c.Table.Entries, c.Status.Polled = make([]rdmaconn.Request, n), rdmaconn.NewRequestSet(n)
	c.Table.Free.Init(c.Table.Entries)
	x := &delivered{c: c, batches: make([]*queue, 3), ops: make([]*operation, n)}
	for i := range x.batches {
		x.batches[i] = new(queue)
		x.batches[i].Need.Store(1 << 40)
	}
	call := rapid.IntRange(0, n-1).Draw(t, "call")
	blocks := make([]atomic.Uint64, n)
	for i := range c.Table.Entries {
		s := &c.Table.Entries[i]
		s.Index, s.Block, s.Kind, s.Want, s.Bounce = i, &blocks[i], rdmaconn.KindRead, 8, []byte("answered")
		polled := rapid.Bool().Draw(t, "polled")
		if polled {
			c.Status.Polled.Add(i)
			x.polled++
		}
		s.Start(rdmaconn.RequestPending, polled)
		if i == call {
			s.Waiter = poller.NewWaiter()
			continue
		}
		o := new(operation)
		o.begin(x.batches[rapid.IntRange(0, len(x.batches)-1).Draw(t, "batch")])
		o.p, o.size, o.n, o.s, o.bounce = make([]byte, 8), 8, 8, s, true
		if o.write = rapid.Bool().Draw(t, "write"); o.write {
			s.Kind = rdmaconn.KindWrite
			x.writes++
		}
		s.Op, x.ops[i] = &o.Ticket, o
	}
	c.Unanswered.Store(int64(x.writes))
	return x
}

// check demands that each operation came back to its batch at most once, and that an entry is
// free only then. It returns how many operations came back, and entries are free.
func (x *delivered) check(t *rapid.T) (came, free int) {
	back := map[*operation]bool{}
	for _, b := range x.batches {
		n := int64(0)
		for at := b.Answered.Load(); at != nil; at = at.Next {
			o := at.Owner.(*operation)
			if back[o] || o.q != b || !o.cameBack() {
				t.Fatal("an operation came back twice, or to another batch")
			}
			back[o] = true
			n++
		}
		if b.Count.Load() != n {
			t.Fatalf("%d came back, counted are %d", n, b.Count.Load())
		}
	}
	for i, o := range x.ops {
		if o == nil {
			continue
		}
		is := x.c.Table.Free.Set[i/64].Load()>>(i%64)&1 == 1
		if is {
			free++
		}
		if is && !back[o] || back[o] && !o.cameBack() {
			t.Fatalf("request %d: its operation came back %v, and says %v; it is free %v", i, back[o], o.cameBack(), is)
		}
		if back[o] && !o.write && string(o.p) != "answered" {
			t.Fatalf("request %d: %q was read", i, o.p)
		}
	}
	if x.c.Table.Free.Size() != free {
		t.Fatalf("%d requests are free, %d are of operations", x.c.Table.Free.Size(), free)
	}
	return len(back), free
}

// Answers that are seen together, in any order and for several batches, come back once
// each to their batch, and only then are their entries free; every answer is counted, and
// nothing is polled for any more.
func TestDeliveryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newDelivered(t)
		c := x.c
		var l rdmaconn.Delivery
		order := make([]int, len(c.Table.Entries))
		for i := range order {
			order[i] = i
		}
		order = rapid.Permutation(order).Draw(t, "order")
		for _, i := range order {
			s := &c.Table.Entries[i]
			s.Set(rdmaconn.RequestSettling)
			if err := c.Settle(s, rdmaconn.RequestPending, wire.IOStatusBlock{Information: 8}, &l); err != nil {
				t.Fatal(err)
			}
			if x.ops[i] == nil && (s.State() != rdmaconn.RequestDone || c.Seen.Load() == 0) {
				t.Fatal("the call was not completed, or before its answer was counted")
			}
			if rapid.IntRange(0, 9).Draw(t, "hand over") == 0 {
				l.HandOver(c)
			}
			x.check(t)
		}
		l.HandOver(c)
		if came, free := x.check(t); came != len(c.Table.Entries)-1 || free != came {
			t.Fatalf("%d of %d came back, %d requests are free", came, len(c.Table.Entries)-1, free)
		}
		k := c.Counts
		if c.Seen.Load() != int64(len(c.Table.Entries)) || c.Unanswered.Load() != 0 || !c.Status.Polled.Empty() {
			t.Errorf("seen %d, unanswered %d, polled for %v", c.Seen.Load(), c.Unanswered.Load(), !c.Status.Polled.Empty())
		}
		var got base.Stats
		k.Snapshot(&got)
		if got.Polled != uint64(x.polled) || got.Interrupts != uint64(len(c.Table.Entries)-x.polled) || got.Latency.Count() != uint64(len(c.Table.Entries)) {
			t.Errorf("counted %d polled of %d, %d not, %d delays", got.Polled, x.polled, got.Interrupts, got.Latency.Count())
		}
	})
}
