package rdmaconn

import (
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"

	"pgregory.net/rapid"
)

// delivered is a connection with requests of several goroutines outstanding in all its entries.
type delivered struct {
	c      *Conn
	queues []*Arrivals
	ops    []*fakeOperation // by entry
	writes int
	polled int
}

func newDelivered(t *rapid.T) *delivered {
	const n = 140
	c, _ := newFake(n, base.Interrupt, 0)
	x := &delivered{c: c, queues: make([]*Arrivals, 3), ops: make([]*fakeOperation, n)}
	for i := range x.queues {
		x.queues[i] = new(Arrivals)
		x.queues[i].need.Store(1 << 40)
	}
	for i := range n {
		s := c.table.free.take()
		s.began, s.want, s.kind = 0, 8, kindRead
		copy(s.bounce, "answered")
		polled := rapid.Bool().Draw(t, "polled")
		if polled {
			c.status.polled.add(s.index)
			x.polled++
		}
		o := newOperation(rapid.SampledFrom(x.queues).Draw(t, "queue"), aRead)
		if rapid.Bool().Draw(t, "write") {
			s.kind = kindWrite
			x.writes++
		}
		o.use(s)
		s.start(requestPending, polled)
		x.ops[i] = o
	}
	c.count.unanswered.Store(int64(x.writes))
	return x
}

// check demands that each ticket came back to its Arrivals at most once, and that an entry is free
// only then. It returns how many tickets came back, and entries are free.
func (x *delivered) check(t *rapid.T) (came, free int) {
	back := map[*fakeOperation]bool{}
	for _, a := range x.queues {
		n := int64(0)
		for at := a.newest.Load(); at != nil; at = at.next {
			o := at.Owner.(*fakeOperation)
			if back[o] || o.To != a {
				t.Fatal("a ticket came back twice, or to another goroutine")
			}
			back[o] = true
			n++
		}
		if a.count.Load() != n {
			t.Fatalf("%d came back, counted are %d", n, a.count.Load())
		}
	}
	for i, o := range x.ops {
		s := o.request
		is := x.c.table.free.set[s.index/64].Load()>>(s.index%64)&1 == 1
		if is {
			free++
		}
		if is && !back[o] || back[o] && s.load().generation() == o.generation {
			t.Fatalf("request %d: its ticket came back %v; it is free %v", i, back[o], is)
		}
		if back[o] && (o.data != "answered" || o.answers != 1) {
			t.Fatalf("request %d: %q was read, with %d answers", i, o.data, o.answers)
		}
	}
	if x.c.table.free.size() != free {
		t.Fatalf("%d requests are free, %d are of tickets", x.c.table.free.size(), free)
	}
	return len(back), free
}

// Answers that are seen together, in any order and for several goroutines, come back once each,
// and only then are their entries free. Every answer is counted, and nothing stays polled.
func TestDeliveryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newDelivered(t)
		c := x.c
		d := delivery{r: &c.answers}
		for _, o := range rapid.Permutation(x.ops).Draw(t, "order") {
			s := o.request
			if !s.settle(s.load()) {
				t.Fatal("the request is not outstanding")
			}
			if err := c.answers.settled(s, requestPending, wire.IOStatusBlock{Information: 8}, &d); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "hand over") == 0 {
				d.handOver()
			}
			x.check(t)
		}
		d.handOver()
		n := len(x.ops)
		if came, free := x.check(t); came != n || free != n {
			t.Fatalf("%d of %d came back, %d requests are free", came, n, free)
		}
		if c.count.seen.Load() != int64(n) || c.count.unanswered.Load() != 0 || !c.status.polled.empty() {
			t.Errorf("seen %d, unanswered %d, polled %v", c.count.seen.Load(), c.count.unanswered.Load(), !c.status.polled.empty())
		}
		var got base.Stats
		c.cfg.Counts.Snapshot(&got)
		if got.Polled != uint64(x.polled) || got.Interrupts != uint64(n-x.polled) || got.Latency.Count() != uint64(n) {
			t.Errorf("counted %d polled of %d, %d not, %d delays", got.Polled, x.polled, got.Interrupts, got.Latency.Count())
		}
	})
}
