package rdmaconn

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"

	"pgregory.net/rapid"
)

// Requests of any sizes of posts get consecutive numbers in the order of their messages, each has
// the hint of pending requests, and one of signalEvery sends makes a completion.
//
// Source: [OP-21], [OP-65], [LWIO claim 22]
func TestSendQueueNumbersMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 100
		caps := rapid.SampledFrom([]rdma.Caps{0, rdma.CapDirectAlloc}).Draw(t, "caps")
		c, pair := newFake(n, base.Interrupt, caps)
		first := rapid.Uint64Range(0, 1<<17).Draw(t, "first")
		c.send.seq = first
		posted := 0
		for posted < n {
			size := min(rapid.IntRange(1, 20).Draw(t, "size"), n-posted)
			list := make([]*Ticket, 0, size)
			for set := c.TakeCredits(size); len(list) < size; {
				if set.Empty() {
					set = c.TakeCredits(size - len(list))
				}
				o := newOperation(new(Arrivals), aRead)
				o.Prepare(c.NextCredit(&set), IO{Bytes: 1})
				list = append(list, &o.Ticket)
			}
			c.AddPending(size)
			c.Post(list, rapid.Bool().Draw(t, "call"))
			posted += size
		}
		got := pair.sent()
		if len(got) != n || c.count.sent.Load() != n {
			t.Fatalf("%d messages of %d, counted %d", len(got), n, c.count.sent.Load())
		}
		for i, h := range got {
			if h.Sequence != uint16(first+uint64(i)) || h.Credits == 0 || h.Flags&wire.FlagInterrupt == 0 {
				t.Fatalf("message %d: %+v", i, h)
			}
			if signaled := pair.flags[i]&rdma.FlagSilentSuccess == 0; signaled != ((i+1)%signalEvery == 0) {
				t.Fatalf("message %d makes a completion: %v", i, signaled)
			}
		}
	})
}

// A replayed write has the number of its first message, and takes no new one.
//
// Source: [OP-112]
func TestSendQueueKeepsNumberOfReplay(t *testing.T) {
	c, pair := newFake(4, base.Interrupt, 0)
	c.send.seq = 500
	for _, r := range []IO{{Write: true, Bytes: 1, Replay: true, Number: 77}, {Write: true, Bytes: 1}} {
		o := newOperation(new(Arrivals), func() wire.Header { return wire.NewWrite(5, 0, 1) })
		set := c.TakeCredits(1)
		o.Prepare(c.NextCredit(&set), r)
		c.Post([]*Ticket{&o.Ticket}, false)
	}
	if got := pair.sent(); len(got) != 2 || got[0].Sequence != 77 || got[1].Sequence != 500 {
		t.Errorf("%+v", got)
	}
	if c.UnansweredWrites() != 2 {
		t.Errorf("%d writes unanswered", c.UnansweredWrites())
	}
}

// Messages that are queued while another goroutine posts are posted by that goroutine, all of them
// and in order.
func TestSendQueuePostsForOthers(t *testing.T) {
	const goroutines, each = 8, 60
	c, pair := newFake(64, base.Interrupt, 0)
	var posting sync.Mutex
	pair.onPost = func([]rdma.Request) {
		if !posting.TryLock() {
			t.Error("two goroutines post at the same time")
			return
		}
		runtime.Gosched()
		posting.Unlock()
	}
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				o := postRead(t, c, 1)
				s := o.request
				c.send.awaitPost(s.round)
				answer(t, c, wire.StatusResponse{Cookie: s.cookie(), Information: 1})
			}
		})
	}
	all.Wait()
	got := pair.sent()
	if len(got) != goroutines*each {
		t.Fatalf("%d messages of %d", len(got), goroutines*each)
	}
	for i, h := range got {
		if h.Sequence != uint16(i) {
			t.Fatalf("message %d has the number %d", i, h.Sequence)
		}
	}
}

// A failed post ends the connection, and the requests after it are not posted.
func TestSendQueueFailureEndsConnection(t *testing.T) {
	c, pair := newFake(4, base.Interrupt, 0)
	pair.fails = errFake
	c.connector = doneConnector{done: make(chan struct{})}
	o := postRead(t, c, 1)
	if !errors.Is(c.Err(), errFake) {
		t.Fatal(c.Err())
	}
	if number, ok := c.TakeBack(&o.Ticket); !ok || number != 0 || o.InFlight() {
		t.Errorf("taken back %v, number %d", ok, number)
	}
	set := c.TakeCredits(1)
	h := wire.NewClose(5)
	s := c.NextCredit(&set)
	if c.send.postDetached(s, kindControl, func() (wire.Header, bool) { return h, true }) {
		t.Error("a message was sent without a connection")
	}
	if err := c.send.post(s, &h, nil); !errors.Is(err, errFake) || s.load().state() != requestDead {
		t.Errorf("%v, state %d", err, s.load().state())
	}
}

// doneConnector is a connector whose connection has ended if done is closed.
type doneConnector struct {
	rdma.Connector
	done chan struct{}
}

func (c doneConnector) Done() <-chan struct{} { return c.done }

// A request is polled only in mode Polling, or in mode Adaptive with few requests pending; its
// status block is reset before it is sent, and it is in the set of the poller.
//
// Source: [OP-88], [OP-89]
func TestSendQueueAsksForStatusBlock(t *testing.T) {
	for _, tt := range []struct {
		mode    base.CompletionMode
		pending int
		want    bool
	}{
		{base.Interrupt, 0, false}, {base.Polling, 0, true}, {base.Polling, 2 * adaptiveDepth, true},
		{base.Adaptive, 0, true}, {base.Adaptive, 2 * adaptiveDepth, false},
	} {
		c, pair := newFake(4, tt.mode, 0)
		c.AddPending(tt.pending)
		o := postRead(t, c, 1)
		h, s := pair.sent()[0], o.request
		polled := h.Flags&wire.FlagInterrupt == 0
		if polled != tt.want || s.load().polled() != tt.want || c.status.polled.empty() == tt.want {
			t.Errorf("%+v: polled %v, %v", tt, polled, s.load().polled())
		}
		if polled && (h.IosMh != 8 || h.IosVa != uint64(8*s.index) || s.block.Load() != wire.PendingBlock().Uint64()) {
			t.Errorf("%+v: the status block is elsewhere, or not reset: %+v", tt, h)
		}
		if !polled && h.Cookie != s.cookie() {
			t.Errorf("%+v: cookie %#x", tt, h.Cookie)
		}
	}
}

// Calls with answers that came together share a post, also when some of them run late, in each
// completion mode.
func TestCallsShareOnePost(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, mode := range []base.CompletionMode{base.Interrupt, base.Polling} {
		const rounds, calls = 200, 4
		c, pair := newFake(64, mode, 0)
		posts := 0
		for range rounds {
			c.send.returning.Store(2 * calls)
			pair.posts = 0
			done := make(chan *fakeOperation, calls)
			for range calls {
				go func() { done <- postCall(t, c) }()
			}
			for range calls {
				release(t, c, <-done)
			}
			posts += pair.posts
			if n := c.send.returning.Load(); pair.posts == 1 && n != calls {
				t.Fatalf("%v: %d calls are expected after the first %d of %d", mode, n, calls, 2*calls)
			}
		}
		// The scheduler returns to the first call early at times.
		if posts > rounds+rounds/4 {
			t.Errorf("%v: %d posts for %d times %d calls", mode, posts, rounds, calls)
		}
	}
}

// A call yields to calls that do not return only once.
func TestCallDoesNotExpectLostCallsTwice(t *testing.T) {
	c, _ := newFake(4, base.Interrupt, 0)
	c.send.returning.Store(10)
	release(t, c, postCall(t, c))
	if n := c.send.returning.Load(); n != 0 {
		t.Errorf("%d calls are still expected", n)
	}
}

// With several processors a call does not let other calls run while a poller looks for status
// blocks.
func TestCallDoesNotWaitBesideBusyPoller(t *testing.T) {
	c, pair := newFake(4, base.Polling, 0)
	c.progress.single.Store(false)
	c.send.returning.Store(10)
	for posts := 1; posts <= 2; posts++ {
		postCall(t, c)
		if n := c.send.returning.Load(); pair.posts != posts || n != int64(10-posts) {
			t.Errorf("%d posts, %d calls are expected; want %d, %d", pair.posts, n, posts, 10-posts)
		}
	}
}

// postCall posts a read of a blocking call.
func postCall(t *testing.T, c *Conn) *fakeOperation {
	o := newOperation(new(Arrivals), aRead)
	set := c.TakeCredits(1)
	o.Prepare(c.NextCredit(&set), IO{Bytes: 1})
	c.AddPending(1)
	c.Post([]*Ticket{&o.Ticket}, true)
	return o
}

// release answers a request by its status block or a status message.
func release(t *testing.T, c *Conn, o *fakeOperation) {
	t.Helper()
	c.send.awaitPost(o.request.round)
	if o.polled {
		o.request.block.Store(0)
		c.answers.scan()
	} else {
		answer(t, c, wire.StatusResponse{Cookie: o.request.cookie(), Information: 1})
	}
	if o.answers != 1 {
		t.Fatalf("%d answers", o.answers)
	}
}
